//! The state that all connections to one voter share.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::clock_guard::Reading;
use super::options::VoterOptions;
use super::peers::{Observed, Peers};
use crate::backend::redis::config::Address;
use crate::backend::redis::link::micros;
use crate::backend::redis::units::millis;
use crate::backend::remote::Listeners;
use crate::backend::{Listener, NodeAnswer};
use crate::clock::{Clock, Moment};

/// The information of this client about one voter.
#[derive(Debug)]
pub(super) struct VoterState {
    max_ttl: Duration,
    address: Address,
    observed: Arc<Observed>,
    /// The time until which the server's clock is not trusted, in us of the local clock.
    distrusted: AtomicI64,
    /// The end of the quarantine (no votes) according to the server's last answer, in us of the local clock.
    quarantined: AtomicI64,
    peers: OnceLock<Arc<Peers>>,
    listeners: Listeners,
    /// Whether the server's clock has been compared with the clocks of its peers.
    compared: AtomicBool,
}

impl VoterState {
    pub(super) fn new(options: VoterOptions, address: Address) -> Self {
        Self {
            max_ttl: options.max_ttl,
            observed: Arc::new(Observed::new(&address)),
            address,
            distrusted: AtomicI64::new(i64::MIN),
            quarantined: AtomicI64::new(i64::MIN),
            peers: OnceLock::new(),
            listeners: Listeners::default(),
            compared: AtomicBool::new(false),
        }
    }

    pub(super) fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    pub(super) fn max_millis(&self) -> u64 {
        millis(self.max_ttl)
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the observations of the server, which the voter's peers can also read.
    pub(super) fn observed(&self) -> &Arc<Observed> {
        &self.observed
    }

    /// Records the run id of the server if the same server does not already vote under another name. Returns whether
    /// the run id was recorded.
    pub(super) fn registers(&self, run: [u8; 40]) -> bool {
        match self.peers.get() {
            Some(peers) => peers.register(&self.observed, run),
            // There are no peers, or the peers are still being dialled. In the second case, `introduce` compares the
            // run ids later.
            None => {
                self.observed.set_run(run);
                true
            }
        }
    }

    /// Returns the voters of the quorum, if this voter was connected together with others.
    pub(super) fn peers(&self) -> Option<&Peers> {
        self.peers.get().map(|peers| &**peers)
    }

    pub(super) fn join(&self, peers: Arc<Peers>) {
        let _ = self.peers.set(peers);
    }

    /// Records that the server's clock showed `now` (us) at some time between `sent` and `received`. A server whose
    /// clock was set has no vote for the time of the longest lease: keys may expire too early, and its quarantine may
    /// end too early.
    pub(super) fn observe(&self, now: i64, sent: Moment, received: Moment) {
        // All connections of this voter share one record. So each step is reported once, by the runtime that detects it
        // first.
        let step = self.observed.clock().observe(Reading::new(now, sent, received));
        if let Some(step) = step {
            // The time counts from the answer, because the clock may have been set at any time before the answer.
            let out = self.distrust(received);
            tracing::warn!(
                server = %self.address, step_ms = step / 1_000, does_not_vote_for = ?out,
                "the clock of this voter was set"
            );
        }
    }

    /// Compares the server's clock once with the clocks of its peers, as soon as enough clocks are known.
    /// [`observe`](Self::observe) detects later steps. A server whose clock is constantly wrong votes again after the
    /// time of the longest lease.
    pub(super) fn compare_once(&self) {
        if self.compared.load(Ordering::Relaxed) {
            return;
        }
        let (Some(reading), Some(peers)) = (self.observed.reading(), self.peers.get()) else { return };
        // If too few clocks are known, the clock is not marked as compared, and the next heartbeat tries again.
        let Some(beside) = peers.beside(reading) else { return };
        // The swap makes only one of several concurrent heartbeats report the difference.
        if self.compared.swap(true, Ordering::Relaxed) || beside == 0 {
            return;
        }
        let out = self.distrust(Clock::Suspend.now());
        tracing::warn!(
            server = %self.address, ahead_ms = beside / 1_000, does_not_vote_for = ?out,
            "the clock of this voter differs from those of the others"
        );
    }

    fn distrust(&self, now: Moment) -> Duration {
        let out = quarantine(self.max_ttl);
        // If two connections detect a step at the same time, the later end counts.
        self.distrusted.fetch_max(micros(now.plus(out)), Ordering::Relaxed);
        out
    }

    /// Records that the server is in quarantine for `left` from `now` on, and reports this.
    pub(super) fn quarantined(&self, now: Moment, left: Duration) {
        // A new answer of the server replaces the old answer, even if its quarantine is shorter: a cluster that was
        // declared new has no quarantine.
        self.quarantined.store(micros(now.plus(left)), Ordering::Relaxed);
        self.report(now);
    }

    /// Registers a listener, and reports to the listener whether the server votes.
    pub(super) fn attach(&self, process: u128, listener: Weak<dyn Listener>) {
        // The state is reported at once: the next report comes with a heartbeat, and without a connection there is no
        // heartbeat.
        if let Some(listener) = listener.upgrade() {
            listener.quarantined(&self.address.to_string(), self.stays_out(Clock::Suspend.now()));
        }
        self.listeners.add(process, listener);
    }

    /// Reports to the listeners that the server has answered a heartbeat.
    pub(super) fn answered(&self, answer: &NodeAnswer<'_>) {
        self.listeners.node_answered(answer);
    }

    /// Reports to the listeners whether the server votes.
    pub(super) fn report(&self, now: Moment) {
        let (node, stays_out) = (self.address.to_string(), self.stays_out(now));
        self.listeners.living().iter().for_each(|listener| listener.quarantined(&node, stays_out));
    }

    fn stays_out(&self, now: Moment) -> bool {
        self.quarantine_left(now).is_some() || self.distrusted(now).is_some()
    }

    /// Returns how much longer the server is in quarantine, or `None` if it is not in quarantine.
    pub(super) fn quarantine_left(&self, now: Moment) -> Option<Duration> {
        left(&self.quarantined, now)
    }

    /// Returns how much longer the clock is not trusted, or `None` if it is trusted.
    pub(super) fn distrusted(&self, now: Moment) -> Option<Duration> {
        left(&self.distrusted, now)
    }
}

/// Returns the time from `now` to `until` (in us of the local clock), or `None` if `until` has passed.
fn left(until: &AtomicI64, now: Moment) -> Option<Duration> {
    let left = until.load(Ordering::Relaxed).saturating_sub(micros(now));
    u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_micros)
}

/// Microseconds of quarantine per millisecond of the longest lease. The quarantine is 2 % longer than the lease,
/// because clocks run at different speeds.
pub(super) const QUARANTINE_FACTOR: u64 = 1_020;
/// Microseconds that are added to a quarantine because of rounding.
pub(super) const QUARANTINE_MARGIN: u64 = 10_000;

/// Returns the quarantine of a server that may have forgotten a lease of `max_ttl`. The gate computes the same value
/// from the same constants.
pub(super) fn quarantine(max_ttl: Duration) -> Duration {
    let micros = millis(max_ttl).saturating_mul(QUARANTINE_FACTOR);
    Duration::from_micros(micros.saturating_add(QUARANTINE_MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(port: u16) -> Arc<VoterState> {
        let address = Address::Tcp { host: "h".to_owned(), port };
        Arc::new(VoterState::new(VoterOptions::new(Duration::from_secs(10)), address))
    }

    /// Records that the server's clock is now `ahead` of the local clock.
    fn says(voter: &VoterState, ahead: Duration) -> Moment {
        let now = Clock::Suspend.now();
        voter.observe(micros(now.plus(ahead)), now, now);
        now
    }

    #[test]
    fn a_clock_that_was_set_costs_the_vote_for_the_longest_lease() {
        let voter = voter(1);
        let before = says(&voter, Duration::ZERO);
        assert_eq!(voter.distrusted(before), None);
        let set = says(&voter, Duration::from_secs(31));
        assert_eq!(voter.distrusted(set), Some(Duration::from_millis(10_210)));
        assert_eq!(voter.distrusted(set.plus(Duration::from_millis(10_210))), None);
    }

    #[test]
    fn a_fresh_client_finds_the_one_beside_the_others() {
        let voters = [voter(1), voter(2), voter(3)];
        let peers =
            Arc::new(Peers::new(voters.iter().map(|voter| Arc::downgrade(voter.observed())).collect()));
        for (voter, ahead) in voters.iter().zip([0, 31, 0]) {
            voter.join(Arc::clone(&peers));
            says(voter, Duration::from_secs(ahead));
            // The clocks are not compared until three are known.
            voter.compare_once();
        }
        let now = Clock::Suspend.now();
        assert!(voters.iter().all(|voter| voter.distrusted(now).is_none()));
        voters.iter().for_each(|voter| voter.compare_once());
        let out: Vec<_> = voters.iter().map(|voter| voter.distrusted(now).is_some()).collect();
        assert_eq!(out, [false, true, false]);
    }
}
