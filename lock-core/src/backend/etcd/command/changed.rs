//! Waiting for a turn.
//!
//! A waiter watches the one entry that it waits for, so that one release wakes one waiter. What it then finds decides:
//! it looks again, and watches another one if it is not its turn.

use std::time::Duration;

use tokio::time::sleep;

use crate::backend::etcd::error::{Failure, of_status};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::Line;
use crate::backend::etcd::link::Events;
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

/// What a claim waits for.
struct Blocked {
    /// The first and the last of the watched keys, as in [`Wait::For`].
    by: (Vec<u8>, Vec<u8>),
    /// When that was read.
    revision: i64,
    /// Its own entry, if it has one, with the lease.
    own: Option<(Vec<u8>, i64)>,
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
        let mut blocked = self.blocked(claim).await?;
        while let Some(now) = blocked {
            let mut events = self.events(claim, &now).await?;
            // Of the changes between the answer and the watch, the watch tells nothing.
            if began(&mut events).await? != Some(now.revision) {
                let again = self.blocked(claim).await?;
                if again.as_ref().is_none_or(|again| again.by != now.by) {
                    blocked = again;
                    continue;
                }
            }
            match &now.own {
                Some((stored, lease)) => tokio::select! {
                    told = told(&mut events) => told?,
                    lost = self.stay(stored, *lease) => return lost,
                },
                None => told(&mut events).await?,
            }
            drop(events);
            blocked = self.blocked(claim).await?;
        }
        Ok(())
    }

    /// Reads what a claim waits for; `None` where another attempt makes sense.
    async fn blocked(&self, claim: &Claim) -> Result<Option<Blocked>, Failure> {
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
                blocked.get_or_insert(((from, to), line.revision));
            }
        }
        Ok(blocked.map(|(by, revision)| Blocked { by, revision, own }))
    }

    /// Begins to watch what a claim waits for.
    async fn events(&self, claim: &Claim, blocked: &Blocked) -> Result<Events<WatchResponse>, Failure> {
        // Only a reader may be served by what is written: by a writer that becomes a reader.
        let puts = claim.mode == Mode::Shared;
        let (from, to) = blocked.by.clone();
        let connection = self.connections.get().await?;
        let token = connection.token();
        connection.watch(WatchRequest::create(from, to, puts), token).await
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

/// Returns from which revision on the changes are told. `None` where the server does not say so.
async fn began(events: &mut Events<WatchResponse>) -> Result<Option<i64>, Failure> {
    // The first answer says that the watch was created, or why it was not.
    let answer = next(events).await?;
    Ok(answer.header.filter(|_| answer.created).map(|header| header.revision))
}

/// Returns when there was an event, or the server has ended the watch: in both cases the line is read again.
async fn told(events: &mut Events<WatchResponse>) -> Result<(), Failure> {
    loop {
        let answer = next(events).await?;
        if !answer.events.is_empty() || answer.canceled {
            return Ok(());
        }
    }
}

async fn next(events: &mut Events<WatchResponse>) -> Result<WatchResponse, Failure> {
    match events.message().await {
        Ok(Some(answer)) => Ok(answer),
        // Without a pause nothing would keep this from a tight loop: the library asks.
        Ok(None) => Err(super::super::error::unexpected("the end of a watch")),
        Err(status) => Err(of_status(&status)),
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
