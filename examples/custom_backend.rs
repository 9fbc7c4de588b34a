//! A store of your own, and the suite that says whether it keeps the contract of a backend.
//! `cargo run -p lock-examples --features testkit --example custom_backend`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, Grant, Held, Renew, Renewal};
use lock_core::clock::{Clock, Moment};
use lock_core::testkit::contract::{self, Subject};
use lock_core::{Released, Result, owner::Owner};

/// For each key whose it is, and until when. A key that is kept after its release is nobody's.
type Rows = HashMap<String, (Option<Owner>, Duration)>;

#[derive(Debug)]
struct Table(Mutex<Rows>, Moment);

impl Table {
    /// The rows that are not over, and the time on the clock of the leases and since the beginning.
    fn rows(&self) -> (MutexGuard<'_, Rows>, Moment, Duration) {
        let (mut rows, now) = (self.0.lock().expect("nobody panics with it"), Clock::Suspend.now());
        let passed = now.since(self.1);
        rows.retain(|_, (_, until)| *until > passed);
        (rows, now, passed)
    }

    /// Extends the lease of this owner, never shortens it; of a key that is free only where it `takes` it.
    fn extend(&self, claim: &Claim, ttl: Duration, takes: bool) -> Option<Moment> {
        let (mut rows, now, passed) = self.rows();
        if takes {
            rows.entry(claim.key.to_string()).or_insert((Some(claim.owner), passed));
        }
        let (_, until) = rows.get_mut(claim.key.as_str()).filter(|(owner, _)| *owner == Some(claim.owner))?;
        *until = (*until).max(passed + ttl);
        Some(now)
    }
}

impl Backend for Table {
    fn capability(&self) -> Capability {
        Capability::exclusive("table")
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        self.capability().check(claim)?;
        let granted = self.extend(claim, claim.ttl, true).map(|sent| Grant::new(sent, claim.ttl));
        Ok(granted.map_or_else(|| Attempt::Held(Held::default()), Attempt::Granted))
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let one = |renew: &Renew<'_>| match self.extend(renew.claim, renew.ttl, false) {
            Some(sent) => Renewal::Renewed { sent, lease: renew.ttl, waiters: None },
            None => Renewal::NotOwned,
        };
        batch.iter().map(one).collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let (mut rows, _, passed) = self.rows();
        let Entry::Occupied(mut row) = rows.entry(claim.key.to_string()) else {
            return Ok(Released::Expired);
        };
        match (row.get().0 == Some(claim.owner), keep_for) {
            (false, _) => return Ok(Released::Taken),
            (true, Some(keep_for)) => _ = row.insert((None, passed + keep_for)),
            (true, None) => _ = row.remove(),
        }
        Ok(Released::Released)
    }
}

#[tokio::main]
async fn main() {
    let report = contract::run_all(|| async { Subject::new(Table(Mutex::default(), Clock::Suspend.now())) });
    println!("{}", report.await);
}
