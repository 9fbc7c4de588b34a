//! Waiting for the previous node, or for a change of the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use zookeeper_client::{Client, Error, EventType};

use super::line::{Line, Place};
use super::places::Site;
use super::session::Watch;
use crate::backend::remote::queue_copy::{QueueCopy, Seen};

impl Site<'_> {
    /// Completes when another attempt makes sense. Watches one node, so that a release wakes one waiter. The waiters for a
    /// permit, which the deletion of any node may serve, share one copy of the queue: a change is read once for all.
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
            let seen = self.look().await?;
            let line = seen.line;
            let mode = self.claim.mode;
            let own = entry.as_ref().and_then(|entry| entry.node.as_deref());
            let (at, is_due) = match &entry {
                Some(_) => match own.and_then(|node| line.place_named(node)) {
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
                let copy = self.session.copies.copy_of(self.directory.as_bytes(), |copy| self.follow(copy));
                let own = own.map(str::to_owned);
                // Many claims wait long, here and below: each would keep a whole queue.
                drop((line, entry));
                match own {
                    Some(node) => copy.served(node.as_bytes(), seen.changed).await,
                    None => copy.admits(mode).await,
                }
                return Ok(());
            };
            let path = self.path(&before.name);
            drop((line, entry));
            let Some(_watch) = self.session.watch(&path, Watch::OF_WAITERS) else { break };
            let (stat, watcher) = client.check_and_watch_stat(&path).await?;
            // Without a `stat`, the node was deleted since the read: the next read finds another one, or none.
            if stat.is_some() {
                let event = watcher.changed().await;
                // A holder writes its node for a fencing token, which changes nothing for later nodes. Any other report is only a
                // hint: a deleted node may have become a reader's node in the same place.
                if event.event_type != EventType::NodeDataChanged {
                    return Ok(());
                }
            }
        }
        // There are too many watches: the library asks from time to time.
        std::future::pending().await
    }

    /// Keeps a copy of the queue up to date, for as long as it is used.
    fn follow(&self, copy: Arc<QueueCopy<Place>>) {
        let (client, directory) = (self.session.client().clone(), self.directory.clone());
        let (kept, mut over) = (Arc::clone(&copy), self.session.over.subscribe());
        let follows = async move {
            // However the copy ends, the waiters send requests, and learn why.
            tokio::select! {
                _ = over.wait_for(|over| *over) => {}
                _ = follow(&client, &directory, &kept) => {}
            }
        };
        // On the client's runtime: a watch that outlives the client panics.
        let runtime = self.session.background.clone().unwrap_or_else(Handle::current);
        runtime.spawn(copy.keep(follows));
    }
}

/// How often a copy is read without a change, in case a report is lost.
const ANYWAY: Duration = Duration::from_secs(2);

/// Reads the nodes of a directory after each change.
async fn follow(client: &Client, directory: &str, copy: &QueueCopy<Place>) -> Result<(), Error> {
    loop {
        let (children, stat, watcher) = client.get_and_watch_children(directory).await?;
        copy.read(Seen { queue: Line::of_children(children), revision: stat.pzxid });
        let _ = tokio::time::timeout(ANYWAY, watcher.changed()).await;
    }
}
