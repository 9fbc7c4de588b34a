//! Compares the clocks of the voters with each other. A client that has just connected has no other information about
//! the clocks.

use std::net::IpAddr;
use std::sync::Weak;

use super::clock_guard::{ClockGuard, Reading, TOLERANCE};
use crate::backend::redis::config::Address;
use crate::sync::{Mutex, MutexGuard};

/// The largest age difference between two readings that are compared, in us.
const FRESH: i64 = 5_000_000;

/// The observations of this client about one voter's server.
#[derive(Debug, Default)]
pub(super) struct Observed {
    clock: Mutex<ClockGuard>,
    /// The run id of the server when it was last registered.
    run: Mutex<Option<[u8; 40]>>,
    /// The machine of the server, if its address names one.
    machine: Option<String>,
}

impl Observed {
    pub(super) fn new(address: &Address) -> Self {
        Self { machine: machine(address), ..Self::default() }
    }

    pub(super) fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    pub(super) fn clock(&self) -> MutexGuard<'_, ClockGuard> {
        self.clock.lock()
    }

    pub(super) fn reading(&self) -> Option<Reading> {
        self.clock().last()
    }

    /// Returns the server's run id from the answer to the last bootstrap.
    pub(super) fn run(&self) -> Option<[u8; 40]> {
        *self.run.lock()
    }

    pub(super) fn set_run(&self, run: [u8; 40]) {
        *self.run.lock() = Some(run);
    }
}

/// The voters of one quorum.
#[derive(Debug)]
pub(super) struct Peers {
    all: Vec<Weak<Observed>>,
    /// This mutex is locked while a voter registers its server.
    registering: Mutex<()>,
}

impl Peers {
    pub(super) fn new(all: Vec<Weak<Observed>>) -> Self {
        Self { all, registering: Mutex::new(()) }
    }

    /// Returns how far `reading` certainly differs from the median of the known readings, in us. Returns 0 within the
    /// tolerance, and `None` if fewer than three clocks are known.
    pub(super) fn beside(&self, reading: Reading) -> Option<i64> {
        let known = self.all.iter().filter_map(Weak::upgrade).filter_map(|voter| voter.reading());
        // Old readings are not used, because the clock may have been set since then.
        let fresh = known.filter(|other| reading.at.saturating_sub(other.at).abs() < FRESH);
        beside(&mut fresh.collect::<Vec<_>>(), reading)
    }

    /// Records the run id of `this` if no other voter has it: if one server had two votes, a majority would prove
    /// nothing. Returns whether the run id was recorded.
    pub(super) fn register(&self, this: &Observed, run: [u8; 40]) -> bool {
        // Two voters with the same server may register at the same time: a restart ends the connections of both.
        let _alone = self.registering.lock();
        // The run id is not recorded for a refused voter. Otherwise the other voter with this server would be refused
        // at its next registration.
        let is_first = !self.has_another(this, run);
        if is_first {
            this.set_run(run);
        }
        is_first
    }

    /// Returns the number of voters on a machine, and the number of all voters.
    pub(super) fn count_on(&self, machine: &str) -> (usize, usize) {
        let voters = self.all.iter().filter_map(Weak::upgrade);
        (voters.filter(|voter| voter.machine() == Some(machine)).count(), self.all.len())
    }

    /// Returns whether a voter other than `this` has this run id.
    fn has_another(&self, this: &Observed, run: [u8; 40]) -> bool {
        // `this` is excluded by its address in memory, because its own last registration must not count as that of
        // another voter.
        let mut others =
            self.all.iter().filter_map(Weak::upgrade).filter(|other| !std::ptr::eq(&**other, this));
        others.any(|other| other.run() == Some(run))
    }
}

/// Returns the machine that an address names. Does not recognize that two names belong to the same machine.
fn machine(address: &Address) -> Option<String> {
    let here = || Some("this machine".to_owned());
    match address {
        Address::Unix(_) => here(),
        Address::Tcp { host, .. } if host == "localhost" => here(),
        Address::Tcp { host, .. } if host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()) => here(),
        Address::Tcp { host, .. } => Some(host.to_lowercase()),
        Address::Sentinel(_) | Address::Cluster(_) => None,
    }
}

/// Compares `reading` with the median of `all`, which contains `reading`. Returns `None` for fewer than three clocks,
/// because they could not show which of them is wrong.
fn beside(all: &mut [Reading], reading: Reading) -> Option<i64> {
    if all.len() < 3 {
        return None;
    }
    all.sort_unstable_by_key(|reading| reading.middle());
    // An even number of readings has two middle readings. Any offset between them counts as right.
    let (low, high) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
    let (below, above) = (reading.beyond(low).min(0), reading.beyond(high).max(0));
    let beside = if above > 0 { above } else { below };
    Some(if beside.abs() > TOLERANCE { beside } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn at(ahead_ms: i64, width_ms: i64) -> Reading {
        let ahead = ahead_ms * 1_000;
        Reading { least: ahead - width_ms * 500, most: ahead + width_ms * 500, at: 0 }
    }

    #[test]
    fn the_one_beside_the_others_is_found() {
        let table: &[(&[i64], usize, Option<i64>)] = &[
            (&[0, 0, 31_000], 2, Some(30_999)),
            (&[0, 0, 31_000], 0, Some(0)),
            (&[0, -31_000, 0, 1, 0], 1, Some(-30_999)),
            (&[0, 40, 20], 1, Some(0)),
            // With two clocks, it is unknown which clock is wrong.
            (&[0, 31_000], 1, None),
            // With two clocks against two, it is also unknown which clocks are wrong.
            (&[0, 0, 31_000, 31_000], 2, Some(0)),
            (&[0, 0, 0, 31_000], 3, Some(30_999)),
        ];
        for (ahead, which, expected) in table {
            let readings: Vec<_> = ahead.iter().map(|ahead| at(*ahead, 1)).collect();
            let found = super::beside(&mut readings.clone(), readings[*which]);
            assert_eq!(found.map(|beside| beside / 1_000), *expected, "{ahead:?}, number {which}");
        }
    }

    #[test]
    fn a_server_with_two_names_votes_once_though_both_register_at_the_same_time() {
        const RUN: [u8; 40] = [7; 40];
        let pair = || [Arc::<Observed>::default(), Arc::default()];
        let rounds: Vec<_> = std::iter::repeat_with(pair).take(20_000).collect();
        let peers: Vec<_> =
            rounds.iter().map(|pair| Peers::new(pair.iter().map(Arc::downgrade).collect())).collect();
        let register = |round: usize, name: usize| {
            peers[round].register(&rounds[round][name], RUN);
        };
        let count =
            crate::sync::in_step(rounds.len(), |round| register(round, 0), |round| register(round, 1));
        for (peers, pair) in peers.iter().zip(&rounds).take(count) {
            let votes = pair.each_ref().map(|voter| voter.run() == Some(RUN));
            assert_eq!(votes.iter().filter(|votes| **votes).count(), 1, "one of the two");
            assert_eq!(pair.each_ref().map(|voter| peers.register(voter, RUN)), votes, "and always the same");
        }
    }

    #[test]
    fn voters_on_one_machine_are_counted() {
        let tcp = |host: &str, port| Address::Tcp { host: host.to_owned(), port };
        let addresses =
            [tcp("127.0.0.1", 1), tcp("localhost", 2), Address::Unix("/s".into()), tcp("A", 1), tcp("a", 2)];
        let voters: Vec<_> = addresses.iter().map(|address| Arc::new(Observed::new(address))).collect();
        let peers = Peers::new(voters.iter().map(Arc::downgrade).collect());
        let table = [("this machine", 3), ("a", 2), ("b", 0)];
        for (machine, count) in table {
            assert_eq!(peers.count_on(machine), (count, 5), "{machine}");
        }
    }

    #[test]
    fn a_slow_answer_proves_nothing() {
        let mut readings = [at(0, 1), at(0, 1), at(150, 400)];
        let slow = readings[2];
        assert_eq!(super::beside(&mut readings, slow), Some(0));
    }
}
