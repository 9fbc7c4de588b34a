//! A store of your own, and the suite that checks whether it keeps the contract of a backend.
//! `cargo run -p lock-examples --features testkit --example custom_backend`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{collections::HashMap, sync::Mutex, sync::MutexGuard, time::Duration};

use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, Grant, Held, Renew, Renewal};
use lock_core::{Released, Result, clock::Clock, clock::Moment, owner::Owner, testkit::contract};

/// The owner of each key, and the end of its lease.
type Rows = HashMap<String, (Owner, Moment)>;
#[derive(Debug, Default)]
struct Table(Mutex<Rows>);

impl Table {
    /// Returns the leases that have not expired, and the current time.
    fn rows(&self) -> (MutexGuard<'_, Rows>, Moment) {
        let (mut rows, now) = (self.0.lock().expect("no panic"), Clock::Suspend.now());
        rows.retain(|_, (_, until)| !until.is_past(now));
        (rows, now)
    }
}

/// Extends the lease if the claim's owner holds the key. A lease is never shortened.
fn extend(rows: &mut Rows, claim: &Claim, ttl: Duration, now: Moment) -> Option<Grant> {
    let (_, until) = rows.get_mut(claim.key.as_str()).filter(|(owner, _)| *owner == claim.owner)?;
    *until = now.plus(ttl.max(until.remaining(now)));
    Some(Grant::new(now, ttl))
}

impl Backend for Table {
    fn capability(&self) -> Capability {
        Capability::exclusive("table")
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        self.capability().check(claim)?;
        let (mut rows, now) = self.rows();
        rows.entry(claim.key.to_string()).or_insert((claim.owner, now));
        Ok(extend(&mut rows, claim, claim.ttl, now).map_or(Attempt::Held(Held::default()), Attempt::Granted))
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let (mut rows, now) = self.rows();
        let mut one = |it: &Renew<'_>| extend(&mut rows, it.claim, it.ttl, now);
        batch.iter().map(|it| one(it).map_or(Renewal::NotOwned, Renewal::from)).collect()
    }

    async fn release(&self, claim: &Claim, _keep_for: Option<Duration>) -> Result<Released> {
        let (mut rows, _) = self.rows();
        let its = rows.get(claim.key.as_str()).map(|(owner, _)| *owner == claim.owner);
        rows.retain(|_, (owner, _)| *owner != claim.owner);
        Ok(its.map_or(Released::Expired, |its| if its { Released::Released } else { Released::Taken }))
    }
}

#[tokio::main]
async fn main() {
    println!("{}", contract::run_all(|| async { contract::Subject::new(Table::default()) }).await);
}
