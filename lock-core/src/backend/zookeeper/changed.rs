//! Waits until the node before the claim's node is deleted, or until the queue has changed.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Client, Error, EventType};

use super::grants::Entry;
use super::line::{Line, Place};
use super::places::{Seen, Site};
use super::session::Watch;
use crate::backend::remote::queue_copy::{self, QueueCopy};

/// What must happen before a claim can hold its key.
enum Obstacle {
    /// Nothing. The claim sends a request now.
    None,
    /// This node must be deleted.
    Node(String),
    /// The deletion of any node may be enough. The nodes were read after the change with this number.
    Any(i64),
}

impl Site<'_> {
    /// Completes when the claim should be attempted again. Watches one node, so that a release wakes only one waiter. A
    /// waiter for a permit may be served after the deletion of any node. So all waiters for permits share one copy of
    /// the queue, and each change is read once for all of them.
    pub(super) async fn changed(&self) {
        // After the wait, the claim sends a request in any case. If this session is over, that request uses another
        // session.
        tokio::select! {
            _ = self.watch() => {}
            () = self.session.ends() => {}
        }
    }

    async fn watch(&self) -> Result<(), Error> {
        loop {
            let Ok(entry) = self.entry() else { return Ok(()) };
            let before = match entry.as_ref().and_then(|entry| entry.behind.as_ref()) {
                Some(behind) => behind.node.clone(),
                None => match self.look_for_obstacle(entry.as_ref()).await? {
                    Obstacle::None => return Ok(()),
                    Obstacle::Node(name) => name,
                    Obstacle::Any(changed) => return self.served(entry, changed).await,
                },
            };
            drop(entry);
            let path = self.path(&before);
            let Some(_watch) = self.session.watch(&path, Watch::OF_WAITERS) else { break };
            let (stat, watcher) = self.session.client().check_and_watch_stat(&path).await?;
            let event = match stat {
                None => EventType::NodeDeleted,
                Some(_) => watcher.changed().await.event_type,
            };
            // A holder writes its node for a fencing token, which changes nothing for later nodes. Any other report is
            // only a hint: a reader's node may have replaced a deleted node in the same place.
            if event != EventType::NodeDataChanged {
                // The next attempt reads all nodes.
                let _ = self.session.with(|grants| grants.waits(&self.prefix, None));
                return Ok(());
            }
        }
        // There are too many watches, so the library repeats the attempt from time to time.
        std::future::pending().await
    }

    /// Reads all nodes, and returns what the claim waits for.
    async fn look_for_obstacle(&self, entry: Option<&Entry>) -> Result<Obstacle, Error> {
        let Seen { line, changed } = self.look().await?;
        let mode = self.claim.mode;
        let own = entry.and_then(|entry| entry.node.as_deref());
        let (at, is_due) = match entry {
            Some(_) => match own.and_then(|node| line.place_named(node)) {
                Some(at) => (at, line.holds(at)),
                // If the node is missing, the claim sends a request, whose answer shows the reason.
                None => return Ok(Obstacle::None),
            },
            None => (line.entries().len(), line.admits(mode) || line.clash(mode).is_some()),
        };
        if is_due {
            return Ok(Obstacle::None);
        }
        let before = line.obstacle(at, mode);
        Ok(before.map_or(Obstacle::Any(changed), |before| Obstacle::Node(before.name.clone())))
    }

    /// Waits until the copy of the queue shows that the claim may hold the key. All claims for permits share this copy.
    async fn served(&self, entry: Option<Entry>, changed: i64) -> Result<(), Error> {
        let Some(_watch) = self.session.watch(&self.directory, Watch::OF_WAITERS) else {
            return std::future::pending().await;
        };
        let copy = self.session.copies.copy_of(self.directory.as_bytes(), |copy| self.follow(copy));
        match entry.and_then(|entry| entry.node) {
            Some(node) => copy.served(node.as_bytes(), changed).await,
            None => copy.admits(self.claim.mode).await,
        }
        Ok(())
    }

    /// Keeps a copy of the queue up to date, for as long as it is used.
    fn follow(&self, copy: Arc<QueueCopy<Place>>) {
        let (client, directory) = (self.session.client().clone(), self.directory.clone());
        let (kept, mut over) = (Arc::clone(&copy), self.session.over.subscribe());
        let follows = async move {
            // When this task ends, all waiters send requests. The answers show the reason.
            tokio::select! {
                _ = over.wait_for(|over| *over) => {}
                _ = follow(&client, &directory, &kept) => {}
            }
        };
        // This task must run on the client's runtime, because a watch that outlives the client panics.
        self.session.background.spawn(copy.keep(follows));
    }
}

/// The longest time between two reads of the directory, in case the report of a change is lost.
const ANYWAY: Duration = Duration::from_secs(2);

/// Reads the nodes of a directory after each change, and updates the copy.
async fn follow(client: &Client, directory: &str, copy: &QueueCopy<Place>) -> Result<(), Error> {
    loop {
        let (children, stat, watcher) = client.get_and_watch_children(directory).await?;
        copy.read(queue_copy::Seen { queue: Line::of_children(children), revision: stat.pzxid });
        let _ = tokio::time::timeout(ANYWAY, watcher.changed()).await;
    }
}
