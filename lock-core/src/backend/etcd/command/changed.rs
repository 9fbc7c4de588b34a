//! Waiting for a turn.
//!
//! A waiter watches the one entry that it waits for, so that one release wakes one waiter. What it then finds decides:
//! it looks again, and watches another one if it is not its turn.

use std::time::Duration;

use tokio::time::sleep;
use tonic::Streaming;

use crate::backend::etcd::error::{Failure, of_status};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::Line;
use crate::backend::etcd::proto::{WatchRequest, WatchResponse};
use crate::backend::etcd::store::Store;
use crate::backend::{Claim, Mode};

/// How often a waiter gives a sign of life while it watches. Its lease may be as short as the shortest of etcd.
const SIGN_OF_LIFE: Duration = Duration::from_millis(650);

/// What the line says about a waiter.
enum Wait {
    /// Another attempt makes sense.
    Over,
    /// It waits for changes of the keys from the first to the second, or of the first alone if that is empty.
    For(Vec<u8>, Vec<u8>),
}

impl Store {
    /// Completes when another attempt at the claim makes sense. After a failure it never completes: the library asks
    /// again within two seconds in any case, and at once after a reconnect.
    pub(in super::super) async fn changed(&self, claim: &Claim) {
        if self.watch(claim).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn watch(&self, claim: &Claim) -> Result<(), Failure> {
        loop {
            let mut blocked = None;
            let mut own = None;
            let lines = self.read_all(claim.keys()).await?;
            for (key, line) in claim.keys().zip(&lines) {
                let stored = keyspace::entry(key, claim.owner);
                let place = line.place(&stored);
                if let (Some(place), true) = (place, claim.more.is_empty()) {
                    own = Some((stored, line.entries[place].lease));
                }
                if let Wait::For(from, to) = wait(line, place, claim) {
                    blocked.get_or_insert((from, to, line.revision));
                }
            }
            let Some((from, to, revision)) = blocked else { return Ok(()) };
            // From the revision that was read: a change since then counts too.
            // Only a reader may be served by what is written: by a writer that becomes a reader.
            let puts = claim.mode == Mode::Shared;
            let request = WatchRequest::create(from, to, revision + 1, puts);
            let connection = self.connections.get().await?;
            let token = connection.token();
            let events = connection.stream("/etcdserverpb.Watch/Watch", vec![request], true, token).await?;
            match own {
                Some((stored, lease)) => tokio::select! {
                    told = told(events) => told?,
                    lost = self.stay(&stored, lease) => return lost,
                },
                None => told(events).await?,
            }
        }
    }

    /// Keeps the entry of a waiter. Returns when it is gone.
    async fn stay(&self, stored: &[u8], lease: i64) -> Result<(), Failure> {
        loop {
            sleep(SIGN_OF_LIFE).await;
            if self.keep_place(stored, lease).await?.is_none() {
                return Ok(());
            }
        }
    }
}

/// Returns when there was an event, or the server has ended the watch, as when its revision was compacted: in both
/// cases the line is read again.
async fn told(mut events: Streaming<WatchResponse>) -> Result<(), Failure> {
    loop {
        match events.message().await {
            Ok(Some(answer)) if answer.events.is_empty() && !answer.canceled => {}
            Ok(Some(_)) => return Ok(()),
            // Without a pause nothing would keep this from a tight loop: the library asks.
            Ok(None) => return Err(super::super::error::unexpected("the end of a watch")),
            Err(status) => return Err(of_status(&status)),
        }
    }
}

/// Says what a claim waits for, whose entry is at `place` if it has one.
fn wait(line: &Line, place: Option<usize>, claim: &Claim) -> Wait {
    let at = place.unwrap_or(line.entries.len());
    // An entry that stands in line waits also for a kind that it cannot be beside.
    let refused = place.is_none() && line.conflict(claim.mode).is_some();
    if line.is_served(at, claim.mode) || refused {
        return Wait::Over;
    }
    match line.blocker(at, claim.mode) {
        Some(entry) => Wait::For(entry.stored.clone(), Vec::new()),
        None => {
            let (from, to) = keyspace::line(&claim.key);
            Wait::For(from, to)
        }
    }
}
