//! Renews many grants with one statement.

use std::pin::pin;

use tokio_postgres::types::Type;

use super::release::own_fence;
use super::server::Server;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::postgres::link::{Listening, Parameter};
use crate::backend::remote::deadline;
use crate::backend::remote::renewal::{self, KeyLease, of_grants};
use crate::backend::{Renew, Renewal};
use crate::clock::Clock;

/// The number of locks in one statement. Such a statement is small enough to be sent in one piece. If the server
/// received only a part, it would keep rows locked until the other parts arrive.
const PER_STATEMENT: usize = 250;

type Verdict = renewal::Verdict<Reaction>;

impl Server {
    /// Renews a batch of grants, and returns one answer for each grant.
    pub(crate) async fn renew(&self, batch: &[Renew<'_>]) -> Vec<Renewal> {
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else { return Vec::new() };
        // A renewal also starts the listening connection. The thread of renewals continues even if the runtime of a
        // holder ends or is blocked, so a forced release is still reported.
        self.listening.iter().for_each(Listening::start);
        let deadline = deadline::of_renewal(self.shared().config.timeout, shortest);
        let locks: Vec<KeyLease<'_>> = batch.iter().flat_map(KeyLease::of_grant).collect();
        let mut verdicts = Vec::with_capacity(locks.len());
        for chunk in locks.chunks(PER_STATEMENT) {
            let answer = self.connections.within(deadline, pin!(self.renew_chunk(chunk))).await;
            verdicts.extend(answer.unwrap_or_else(|failure| vec![Verdict::Unknown(failure); chunk.len()]));
        }
        of_grants(batch, verdicts, |failure| self.error(failure))
    }

    async fn renew_chunk(&self, chunk: &[KeyLease<'_>]) -> Result<Vec<Verdict>, Failure> {
        let keys: Vec<String> = chunk.iter().map(|lock| lock.key.as_str().to_owned()).collect();
        let owners: Vec<String> =
            chunk.iter().map(|lock| lock.claim.owner.token().as_str().to_owned()).collect();
        let micros =
            |lock: &KeyLease<'_>| i64::try_from(lock.ttl.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX);
        let ttls: Vec<i64> = chunk.iter().map(micros).collect();
        let owns: Vec<i64> = chunk.iter().map(|lock| own_fence(lock.claim)).collect();
        let parameters: Vec<Parameter> = vec![
            (Box::new(keys), Type::TEXT_ARRAY),
            (Box::new(owners), Type::TEXT_ARRAY),
            (Box::new(ttls), Type::INT8_ARRAY),
            (Box::new(owns), Type::INT8_ARRAY),
        ];
        let live = self.connections.get().await?;
        // The clock is read before the request is sent, because a lease counts from this moment.
        let sent = Clock::Suspend.now();
        let rows = live.query(&self.shared().statements.renew, parameters).await?;
        // If the answer has no row for a lock, the owner does not hold this lock.
        let mut verdicts = vec![Verdict::NotOwned; chunk.len()];
        for row in rows {
            let number: i64 = row.try_get(0).map_err(|_| Failure::unexpected("no number"))?;
            let waiters: Option<i32> = row.try_get(1).map_err(|_| Failure::unexpected("no count"))?;
            let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let verdict = at.and_then(|at| verdicts.get_mut(at));
            *verdict.ok_or_else(|| Failure::unexpected("another number"))? = match waiters {
                Some(waiters) => {
                    live.note_commit();
                    Verdict::Renewed(sent, usize::try_from(waiters).unwrap_or(0))
                }
                None => Verdict::Unknown(Failure::locked()),
            };
        }
        Ok(verdicts)
    }
}
