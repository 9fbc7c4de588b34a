//! Waiting for a turn.
//!
//! A waiter watches the entries that it waits for: one, or as many as its semaphore has permits. So one release wakes one
//! waiter, or so many at most. What it then finds decides: it looks again, and watches others if it is not its turn.

use std::time::Duration;

use tokio::time::sleep;

use crate::backend::etcd::error::{Failure, of_status};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::link::Events;
use crate::backend::etcd::look::{Blocked, Look, Turn};
use crate::backend::etcd::proto::{RangeRequest, RangeResponse, WatchRequest, WatchResponse};
use crate::backend::etcd::store::{Store, now};
use crate::backend::{Claim, Mode};
use crate::clock::Moment;

/// How often a waiter gives a sign of life while it watches. Its lease may be as short as the shortest of etcd.
const SIGN_OF_LIFE: Duration = Duration::from_millis(650);

/// How long after the beginning of a watch its entry is looked at, each time after the one before.
///
/// A member gives a watch the next revision and adds it in two steps. Where a write comes in between, it counts as a watch
/// of the past, and such watches are told of changes only every 100 ms.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(3),
    Duration::from_millis(7),
    Duration::from_millis(20),
    Duration::from_millis(70),
];

/// What the first answers to watches say.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Began {
    /// There was no change between the reading of the line and the watches.
    AtOnce,
    /// Of changes in between, no watch tells.
    Later,
    /// A watch tells of a change already.
    Told,
}

impl Began {
    /// Takes in another answer, where the line was read at `revision`.
    fn and(self, answer: &WatchResponse, revision: i64) -> Self {
        // A watch that has begun tells of a change once, also while others are still to begin.
        if self == Self::Told || tells(answer) {
            return Self::Told;
        }
        // Each watch tells of what comes after a revision of its own.
        let at_once = answer.header.as_ref().is_some_and(|header| header.revision == revision);
        if at_once { self } else { Self::Later }
    }
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
        let mut blocked = match self.left_by_attempt(claim) {
            Some(blocked) => Some(blocked),
            None => self.blocked(claim).await?,
        };
        while let Some(now) = blocked {
            let mut events = self.events(claim, &now).await?;
            let began = began(&mut events, &now).await?;
            if began != Began::AtOnce {
                let again = self.blocked(claim).await?;
                if began == Began::Told || again.as_ref().is_none_or(|again| again.by != now.by) {
                    blocked = again;
                    continue;
                }
            }
            let stays = async {
                match &now.own {
                    Some((own, lease)) => self.stay(own, *lease, now.read_at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                told = told(&mut events) => told?,
                () = self.goes(&now) => {}
                lost = stays => return lost,
            }
            drop(events);
            blocked = self.blocked(claim).await?;
        }
        Ok(())
    }

    /// Returns what the last attempt has read of an entry that stands in line. The watch says whether that is still so.
    fn left_by_attempt(&self, claim: &Claim) -> Option<Blocked> {
        let Look::Waits(blocked) = self.ledger.take_look(&keyspace::page(&claim.key, claim.owner))? else {
            return None;
        };
        Some(blocked)
    }

    /// Reads what a claim waits for; `None` where another attempt makes sense. Leaves the news of its turn to that.
    async fn blocked(&self, claim: &Claim) -> Result<Option<Blocked>, Failure> {
        let mut blocked = None;
        let read_at = now();
        let lines = self.read_all(claim.keys()).await?;
        for (own, line) in self.own(claim).iter().zip(&lines) {
            let place = line.place(own);
            if let (Some(place), true) = (place, claim.more.is_empty())
                && let Some(turn) = Turn::of(line, place, read_at)
                && turn.entry.mode == claim.mode
                && turn.entry.owner.is_some()
            {
                self.ledger.leave(&own.page, Look::Turn(turn));
            }
            if blocked.is_none() {
                blocked = Blocked::of(line, place, claim, read_at);
            }
        }
        Ok(blocked)
    }

    /// Begins to watch what a claim waits for.
    async fn events(&self, claim: &Claim, blocked: &Blocked) -> Result<Events<WatchResponse>, Failure> {
        // Only a reader may be served by what is written: by a writer that becomes a reader.
        let puts = claim.mode == Mode::Shared;
        let requests = blocked.by.iter().cloned().map(|(from, to)| WatchRequest::create(from, to, puts));
        let connection = self.connections.get().await?;
        let token = connection.token();
        connection.watch(requests.collect(), token).await
    }

    /// Looks a few times at the entry that a claim waits for, if it may have its turn soon. Completes when that is gone.
    async fn goes(&self, blocked: &Blocked) {
        if let [(stored, _)] = &blocked.by[..]
            && let Some(created) = blocked.soon_after
        {
            for pause in LOOKS {
                sleep(pause).await;
                // Without an answer the watch tells, or ends.
                if matches!(self.is_there(stored, created).await, Ok(false)) {
                    return;
                }
            }
        }
        std::future::pending().await
    }

    /// Returns whether the entry that was `created` at this revision is there, as far as the member knows that the watches
    /// are at.
    async fn is_there(&self, stored: &[u8], created: i64) -> Result<bool, Failure> {
        let request = RangeRequest { key: stored.to_vec(), serializable: true, ..RangeRequest::default() };
        let answer: RangeResponse = self.call("/etcdserverpb.KV/Range", request).await?;
        Ok(answer.kvs.iter().any(|kv| kv.create_revision == created))
    }

    /// Keeps the entry of a waiter, which was last read at `looked`. Returns when it is gone.
    async fn stay(&self, own: &[u8], lease: i64, looked: Moment) -> Result<(), Failure> {
        // The watch of the claim before, whose place this is, may not have lived long enough to give one.
        let last = self.ledger.lease(own, lease).map(|lease| now().since(lease.sent));
        let mut pause = SIGN_OF_LIFE.saturating_sub(last.unwrap_or(SIGN_OF_LIFE));
        loop {
            sleep(std::mem::replace(&mut pause, SIGN_OF_LIFE)).await;
            if self.keep_place(own, lease, looked).await?.is_none() {
                return Ok(());
            }
        }
    }
}

/// Returns once every watch has begun, or one of them tells of a change.
async fn began(events: &mut Events<WatchResponse>, blocked: &Blocked) -> Result<Began, Failure> {
    let mut began = Began::AtOnce;
    let mut created = 0;
    while created < blocked.by.len() && began != Began::Told {
        let answer = next(events).await?;
        created += usize::from(answer.created);
        began = began.and(&answer, blocked.revision);
    }
    Ok(began)
}

/// Returns when there was an event, or the server has ended a watch that had begun: then the line is read again.
async fn told(events: &mut Events<WatchResponse>) -> Result<(), Failure> {
    while !tells(&next(events).await?) {}
    Ok(())
}

fn tells(answer: &WatchResponse) -> bool {
    // A watch that is refused from the start would be refused again at once, in a tight loop: the library asks instead.
    let ended = answer.canceled && !answer.created;
    ended || !answer.events.is_empty()
}

async fn next(events: &mut Events<WatchResponse>) -> Result<WatchResponse, Failure> {
    match events.message().await {
        Ok(Some(answer)) => Ok(answer),
        // Without a pause nothing would keep this from a tight loop: the library asks.
        Ok(None) => Err(super::super::error::unexpected("the end of a watch")),
        Err(status) => Err(of_status(&status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::etcd::proto::Header;

    #[test]
    fn what_several_watches_say_first_is_taken_together() {
        let created = |revision| WatchResponse {
            header: Some(Header { revision }),
            created: true,
            ..WatchResponse::default()
        };
        let event = WatchResponse { created: false, events: vec![Default::default()], ..created(9) };
        let refused = WatchResponse { canceled: true, ..created(8) };
        let ended = WatchResponse { created: false, ..refused.clone() };
        let silent = WatchResponse { header: None, ..created(8) };
        let table: &[(&[WatchResponse], Began)] = &[
            (&[created(8), created(8)], Began::AtOnce),
            (&[created(8), created(9)], Began::Later),
            // The others would not tell of what came before they began.
            (&[created(9), created(8)], Began::Later),
            (&[silent, created(8)], Began::Later),
            (&[created(8), event.clone(), created(9)], Began::Told),
            (&[created(8), created(9), event], Began::Told),
            (&[created(8), created(8), ended], Began::Told),
            (&[created(8), refused], Began::AtOnce),
        ];
        for (answers, expected) in table {
            let began = answers.iter().fold(Began::AtOnce, |began, answer| began.and(answer, 8));
            assert_eq!(began, *expected, "{answers:?}");
        }
    }
}
