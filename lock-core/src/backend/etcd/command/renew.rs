//! Renews grants. One keep-alive renews a session with all its locks.

use std::sync::Arc;

use crate::backend::etcd::entries::{Id, Lease, Mine};
use crate::backend::etcd::error::{Failure, unexpected};
use crate::backend::etcd::session::{Session, UnderWay, now, renewed};
use crate::backend::etcd::store::Store;
use crate::backend::remote::join_all;
use crate::backend::{Renew, Renewal};
use crate::clock::Moment;

/// The number of grants that are renewed at once, if each needs its own requests.
const TOGETHER: usize = 32;

impl Store {
    /// Renews a batch. Returns one answer for each grant, in the same order.
    pub(in super::super) async fn renew(&self, batch: &[Renew<'_>]) -> Vec<Result<Renewal, Failure>> {
        let sent = now();
        let known: Vec<_> = batch.iter().map(|renew| self.known(renew)).collect();
        let sessions = known.iter().flatten().map(|(session, _)| session).collect();
        let kept = self.keep_all(sessions, renewed).await;
        let of =
            |session: &Session| kept.iter().find(|(id, _)| *id == session.id).map(|(_, kept)| kept.clone());
        let answer = |(known, renew): (&Option<(Arc<Session>, Vec<Mine>)>, &Renew<'_>)| {
            let (session, mine) = known.as_ref()?;
            match of(session).unwrap_or_else(|| Err(unexpected("an answer"))) {
                Err(failure) => Some(Err(failure)),
                Ok(false) => Some(Ok(Renewal::NotOwned)),
                Ok(true) if mine.iter().any(|mine| session.lacks(&mine.stored, mine.bound)) => None,
                Ok(true) => {
                    self.tell(renew.claim, mine);
                    let lease = Lease::Shared(Arc::clone(session));
                    Some(Ok(self.renewed_on(&lease, *renew, sent, None)))
                }
            }
        };
        let mut answers: Vec<_> = known.iter().zip(batch).map(answer).collect();
        let mut open: Vec<_> = answers.iter_mut().zip(batch).filter(|(answer, _)| answer.is_none()).collect();
        for part in open.chunks_mut(TOGETHER) {
            let renewed = join_all(part.iter().map(|(_, renew)| self.renew_one(**renew))).await;
            for ((answer, _), renewed) in part.iter_mut().zip(renewed) {
                **answer = Some(renewed);
            }
        }
        self.end_retired();
        let missing = || Err(unexpected("an answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    /// Returns the session to which the entries of a grant are bound, and the entries. Returns `None` if a request must
    /// show it, or if the ttl of the session is too short.
    fn known(&self, renew: &Renew<'_>) -> Option<(Arc<Session>, Vec<Mine>)> {
        let mine = self.entries.known(&Self::ids(renew.claim)).filter(|_| renew.claim.renews)?;
        let session = Arc::clone(mine.first()?.lease.session()?);
        let alike = mine.iter().all(|mine| mine.holds && mine.is_certain() && mine.lease.id() == session.id);
        (alike && !session.is_retired() && session.ttl >= renew.ttl).then_some((session, mine))
    }

    /// Renews one grant that has a separate lease, that needs another lease, or whose state is unknown.
    pub(super) async fn renew_one(&self, renew: Renew<'_>) -> Result<Renewal, Failure> {
        let (claim, ids) = (renew.claim, Self::ids(renew.claim));
        if claim.renews
            && let Some(mine) = self.entries.known(&ids)
            && mine.iter().all(|mine| mine.holds && mine.is_certain())
        {
            // Most of these grants have waited, and now get a lease of their whole ttl. No read is needed, because
            // their entries are recorded.
            let sent = now();
            if let Some(lease) = self.bind_longer(renew, &ids, &mine).await? {
                return Ok(self.renewed_on(&lease, renew, sent, None));
            }
        }
        loop {
            let sent = now();
            let lines = self.read_all(claim.keys()).await?;
            let Some(mine) = self.held_in(claim, &ids, &lines) else {
                return Ok(Renewal::NotOwned);
            };
            let lease = match self.kept_as_it_is(renew, &mine, sent).await? {
                Some(lease) => Some(lease),
                None => self.bind_longer(renew, &ids, &mine).await?,
            };
            if let Some(lease) = lease {
                ids.iter().for_each(|id| self.entries.change(id, |mine| mine.holds = true));
                let waiters = if let [line] = &lines[..] { Some(line.waiting()) } else { None };
                return Ok(self.renewed_on(&lease, renew, sent, waiters));
            }
        }
    }

    fn renewed_on(&self, lease: &Lease, renew: Renew<'_>, sent: Moment, waiters: Option<usize>) -> Renewal {
        let (sent, length) = match lease {
            Lease::Shared(session) => (sent, session.left(sent)),
            Lease::Own { ttl, sent, .. } => (*sent, *ttl),
        };
        Renewal::Renewed { sent, lease: self.relied_on(length, renew.ttl), waiters }
    }

    /// Keeps the present lease of a grant without automatic renewal alive, if its ttl is long enough. A new lease could
    /// be shorter than the rest of the present lease. The entries were read after `sent`, so the keep-alive counts from
    /// `sent`.
    async fn kept_as_it_is(
        &self,
        renew: Renew<'_>,
        mine: &[Mine],
        sent: Moment,
    ) -> Result<Option<Lease>, Failure> {
        let Some(Mine { lease: Lease::Own { id, ttl, .. }, .. }) = mine.first() else { return Ok(None) };
        // Another process created this entry, which was read just now. Only the server knows the length of the entry's
        // lease.
        let is_unknown = ttl.is_zero();
        let is_on = |mine: &Mine| mine.is_certain() || is_unknown && mine.maybe == [*id];
        let alike = mine.iter().all(|mine| mine.lease.id() == *id && is_on(mine));
        if renew.claim.renews || !alike || !is_unknown && *ttl < renew.ttl {
            return Ok(None);
        }
        let Some(given) = self.keep_alive(*id).await?.filter(|given| *given >= renew.ttl) else {
            return Ok(None);
        };
        let lease = Lease::Own { id: *id, ttl: given, sent };
        for id in Self::ids(renew.claim) {
            self.entries.change(&id, |mine| {
                mine.is_not_on(lease.id());
                mine.lease = lease.clone();
            });
        }
        Ok(Some(lease))
    }

    /// Binds a grant to a lease of the requested ttl. Returns the lease, or `None` if an entry has changed.
    async fn bind_longer(
        &self,
        renew: Renew<'_>,
        ids: &[Id],
        mine: &[Mine],
    ) -> Result<Option<Lease>, Failure> {
        let lease = match self.lease_for(renew.claim, renew.ttl).await {
            Ok(lease) => lease,
            Err(failure) => return self.without_room(renew, mine, failure).await,
        };
        if let Lease::Shared(session) = &lease
            && !self.keep(session, renewed(session.ttl)).await?
        {
            return Ok(None);
        }
        // The lease of an `extend` may have no other use. If the answer is lost, this lease is retired, and the
        // previous lease is renewed.
        let of_extend = lease.session().filter(|_| renew.ttl > renew.claim.ttl);
        let under_way = UnderWay::begin(of_extend.map(AsRef::as_ref));
        let bound = self.bind(ids, mine, &lease, Some(renew.claim)).await;
        if !bound.as_ref().is_err_and(Failure::is_in_doubt) {
            under_way.answered();
        }
        match bound {
            Ok(revision) => Ok(revision.map(|_| lease.clone())),
            Err(failure) => self.without_room(renew, mine, failure).await,
        }
    }

    /// Continues with the present lease of a grant if a full database refuses a longer lease. Otherwise returns the
    /// failure.
    async fn without_room(
        &self,
        renew: Renew<'_>,
        mine: &[Mine],
        failure: Failure,
    ) -> Result<Option<Lease>, Failure> {
        let Some(Lease::Shared(session)) = mine.first().map(|mine| &mine.lease) else { return Err(failure) };
        let alike = mine.iter().all(|mine| mine.lease.id() == session.id && mine.is_certain());
        if !failure.is_permanent() || renew.ttl > renew.claim.ttl || !alike {
            return Err(failure);
        }
        match self.keep(session, renewed(session.ttl)).await? {
            true => Ok(Some(Lease::Shared(Arc::clone(session)))),
            false => Err(failure),
        }
    }
}
