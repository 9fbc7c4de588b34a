//! Waiting for the previous node.

use zookeeper_client::{Error, EventType};

use super::line::Line;
use super::places::Site;
use super::session::Watch;

impl Site<'_> {
    /// Completes when another attempt makes sense. Watches one node, so that a release wakes one waiter; a waiter for a
    /// permit watches all of them.
    pub(super) async fn changed(&self) {
        // However the wait ends, the claim sends a request: in another session, if this one is over.
        tokio::select! {
            _ = self.watch() => {}
            () = self.session.ends() => {}
        }
    }

    async fn watch(&self) -> Result<(), Error> {
        loop {
            let client = self.session.client();
            let Ok(entry) = self.entry() else { return Ok(()) };
            let line = self.look().await?.line;
            let mode = self.claim.mode;
            let (at, is_due) = match entry {
                Some(entry) => match entry.node.and_then(|node| line.place_named(&node)) {
                    Some(at) => (at, line.holds(at)),
                    // Without its node the claim sends a request, and learns its state.
                    None => return Ok(()),
                },
                None => (line.entries().len(), line.admits(mode) || line.clash(mode).is_some()),
            };
            if is_due {
                return Ok(());
            }
            let Some(before) = line.obstacle(at, mode) else {
                let Some(_watch) = self.session.watch(&self.directory, Watch::OF_WAITERS) else { break };
                let (children, _, watcher) = client.get_and_watch_children(&self.directory).await?;
                // A change between the two reads counts.
                if Line::of_children(children) == line {
                    watcher.changed().await;
                }
                return Ok(());
            };
            let path = self.path(&before.name);
            let Some(_watch) = self.session.watch(&path, Watch::OF_WAITERS) else { break };
            let (stat, watcher) = client.check_and_watch_stat(&path).await?;
            // Without it, the node was deleted since it was read: the next read finds another one, or none.
            if stat.is_some() {
                let event = watcher.changed().await;
                // A holder writes its node for a fencing token, which changes nothing for later nodes.
                if event.event_type != EventType::NodeDataChanged {
                    return Ok(());
                }
            }
        }
        // There are too many watches: the library asks from time to time.
        std::future::pending().await
    }
}
