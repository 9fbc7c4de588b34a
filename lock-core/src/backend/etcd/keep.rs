//! Begins the sessions of a store, keeps them alive, and ends them.

use std::sync::Arc;
use std::time::Duration;

use super::entries::{Id, Lease, Mine};
use super::error::{Failure, Reaction, unexpected};
use super::line::Entry;
use super::proto::{Compare, DeleteRangeRequest, RangeRequest, TxnRequest};
use super::session::{Proof, Session, lease_id, now, oldest};
use super::store::Store;
use super::ttl;
use crate::backend::remote::join_all;
use crate::clock::Moment;

/// The entry of a waiter is deleted if the waiter is not polled for this time, or for the ttl of its session if that is
/// longer. A polled waiter sends a request every two seconds.
const UNASKED: Duration = Duration::from_secs(4);

/// The largest number of entries of unpolled waiters that are deleted after one keep-alive.
const GIVEN_UP: usize = 16;

impl Store {
    /// Returns the session for locks of `ttl`. If there is none, begins a session.
    pub(super) async fn session(&self, ttl: Duration) -> Result<Arc<Session>, Failure> {
        let asked = ttl::rounded_up(ttl).max(self.min_ttl);
        if let Some(session) = self.sessions.usable(asked) {
            return Ok(session);
        }
        let begin = async {
            if let Some(session) = self.sessions.usable(asked) {
                return Ok(session);
            }
            let (id, given, sent) = self.grant(asked).await?;
            let mut session = Session::new(id, given, sent);
            session.asked = asked;
            let session = Arc::new(session);
            self.sessions.take(|_| false);
            self.sessions.add(Arc::clone(&session));
            Ok(session)
        };
        self.sessions.grants(asked).fresh(begin).await
    }

    /// Sends a keep-alive for a session if the last one is older than `age`. Returns whether the session lives.
    pub(super) async fn keep(&self, session: &Arc<Session>, age: Duration) -> Result<bool, Failure> {
        if !session.is_over() && !session.is_younger(age) {
            let round = async {
                if session.is_over() || session.is_younger(age) { Ok(()) } else { self.round(session).await }
            };
            session.rounds.fresh(round).await?;
        }
        Ok(!session.is_over())
    }

    /// Sends a keep-alive for each session whose last one is older than `age` of its ttl. Returns the id of each session,
    /// and whether it lives.
    pub(super) async fn keep_all(
        &self,
        mut sessions: Vec<&Arc<Session>>,
        age: fn(Duration) -> Duration,
    ) -> Vec<(i64, Result<bool, Failure>)> {
        sessions.sort_by_key(|session| session.id);
        sessions.dedup_by_key(|session| session.id);
        let keeps = sessions
            .into_iter()
            .map(|session| async move { (session.id, self.keep(session, age(session.ttl)).await) });
        join_all(keeps).await
    }

    /// Returns whether a lease can be used for a new grant. Sends a keep-alive first if the last one is too old.
    pub(super) async fn lives(&self, lease: &Lease) -> Result<bool, Failure> {
        match lease.session() {
            Some(session) => self.keep(session, oldest(session.ttl)).await,
            None => Ok(true),
        }
    }

    /// Sends one keep-alive, and reads the keys of the lease.
    ///
    /// The lease is counted from the moment before a linearizable read. A leader that hung may not have noticed that it
    /// was replaced. Such a leader still answers keep-alives, although another member counts the lease. But it cannot
    /// answer the read. The new leader has started every lease from its full length.
    async fn round(&self, session: &Arc<Session>) -> Result<(), Failure> {
        let sent = now();
        self.linearizable_read().await?;
        let (kept, keys) = tokio::join!(self.keep_alive(session.id), self.keys_of(session.id));
        match kept? {
            Some(given) if given >= session.ttl => {
                session.prove(Proof { sent, keys: keys.ok().flatten().map(Arc::new) });
                self.give_up_unasked(session, sent);
                Ok(())
            }
            Some(_) => Err(unexpected("the time of a lease")),
            None => {
                self.session_lost(session);
                Ok(())
            }
        }
    }

    /// Deletes the entries of waiters that were not polled for a whole ttl (see [`UNASKED`]). Such an entry does not
    /// expire, because other waiters keep the shared lease alive. A future that is not polled must not delay the
    /// waiters behind it.
    ///
    /// A waiter that is polled again before the deletion writes its entry again. The changed entry is not deleted. The
    /// round does not wait for the deletions, because a cluster whose disk hangs still keeps leases alive.
    fn give_up_unasked(&self, session: &Session, at: Moment) {
        let unasked = self.entries.doubt_unasked(session.id, session.ttl.max(UNASKED), at, GIVEN_UP);
        if unasked.is_empty() {
            return;
        }
        self.spawn(|store| async move {
            join_all(unasked.iter().map(|(id, mine)| store.delete_unwritten(id, mine))).await;
        });
    }

    /// Deletes an entry if it was not written since its state `mine` was recorded. Otherwise reads the entry, because
    /// the answer to an earlier request may be lost.
    async fn delete_unwritten(&self, id: &Id, mine: &Mine) -> Result<(), Failure> {
        let mut mine = mine.clone();
        loop {
            let key = || mine.stored.clone();
            let deletes = TxnRequest {
                compare: vec![Compare::modified_at(key(), mine.modified)],
                success: vec![DeleteRangeRequest { key: key() }.into()],
                failure: vec![RangeRequest { key: key(), ..RangeRequest::default() }.into()],
            };
            let found = self.txn(deletes).await?.ranges().flat_map(|range| range.kvs).next().map(Entry::new);
            self.entries.deleted(id, &mine, found.as_ref());
            // If the answer to the creation was never read, this request is the first to read the revision of the
            // entry. Then the deletion is tried again with this revision.
            let is_new = |seen: &Mine| mine.created.is_none() && seen.created.is_some() && !seen.is_certain();
            match self.entries.get(id).filter(is_new) {
                Some(seen) => mine = seen,
                None => return Ok(()),
            }
        }
    }

    /// Records that a session has ended at the server, and notifies its holders.
    pub(super) fn session_lost(&self, session: &Session) {
        if session.end() {
            return;
        }
        let mut owners = self.entries.lost(session.id);
        owners.sort_unstable_by_key(|owner| owner.process());
        for owners in owners.chunk_by(|one, other| one.process() == other.process()) {
            let Some(first) = owners.first() else { continue };
            for listener in self.connections.connector().listeners.of_process(first.process()) {
                listener.session_ended(owners);
            }
        }
    }

    /// Ends the retired sessions that no longer have an entry. If the request is not answered, the session expires.
    pub(super) fn end_retired(&self) {
        let ended = self.sessions.take(|session| session.is_retired() && self.entries.end_unused(session));
        if !ended.is_empty() {
            self.spawn(|store| async move { store.revoke_all(&ended).await });
        }
    }

    /// Ends the sessions without keys. The other sessions expire.
    pub(super) async fn end_sessions(&self) {
        self.revoke_all(&self.sessions.take(|session| self.entries.end_unused(session))).await;
    }

    async fn revoke_all(&self, sessions: &[Arc<Session>]) {
        for session in sessions {
            let _ = self.revoke(session.id).await;
        }
    }

    /// Requests a lease of at least `ttl`. Returns its id, its length, and when the request was sent.
    pub(super) async fn grant(&self, ttl: Duration) -> Result<(i64, Duration, Moment), Failure> {
        let mut tries = 0;
        loop {
            let (id, sent) = (lease_id(), now());
            match self.grant_as(id, ttl).await {
                // Another client has drawn the same id out of 2^63.
                Err(failure) if failure.reaction == Reaction::LeaseExists && tries == 0 => tries += 1,
                given => return given.map(|given| (id, given, sent)),
            }
        }
    }
}
