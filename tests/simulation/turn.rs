//! The actions of a client in one round, as its seed determines.

use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::Mode;
use lock_core::{LockManager, LockRequest, OnLost, Release, strategy};

use crate::client::{Lapse, ms};
use crate::plan::{Asks, Plan};

/// The plan of one round.
pub(crate) struct Turn {
    pub(crate) ask: Ask,
    pub(crate) how: How,
    pub(crate) ttl: Duration,
    pub(crate) renewed: bool,
    pub(crate) fencing: bool,
    pub(crate) waits: Waits,
    pub(crate) gives_up: Option<Duration>,
    pub(crate) time: Duration,
    pub(crate) end: End,
    /// Whether the client does not wait for the answer to its release.
    pub(crate) in_background: bool,
    /// Whether the client writes without a check of its lock, even if the lock is lost.
    pub(crate) careless: bool,
}

/// The requested lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    One(&'static [&'static str]),
    Read,
    Write {
        downgrades: bool,
    },
    /// Several keys at once.
    All,
}

/// The way in which the client holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The client uses a guard.
    Guard,
    /// The client uses `run`.
    Run,
    /// The client uses `run`, and another `run` inside it.
    Nested,
}

/// How long the client waits for another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    No,
    For(Duration),
    Forever,
}

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Dropped,
    /// The hold continues until the lock is lost, if it is not renewed.
    Lost,
}

const A: &[&str] = &["a"];
const B: &[&str] = &["b"];

impl Ask {
    fn new(rng: &mut Rng, asks: Asks) -> Self {
        match (asks, rng.u8(..10)) {
            (Asks::Exclusive, 0..=1) | (Asks::Several, 0..=2) => Self::One(B),
            (Asks::Several, 3..=6) => Self::All,
            (Asks::Exclusive | Asks::Several, _) => Self::One(A),
            (Asks::Shared, 0..=5) => Self::Read,
            (Asks::Shared, with) => Self::Write { downgrades: with > 7 },
        }
    }

    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::One(keys) => keys,
            Self::Read | Self::Write { .. } => A,
            Self::All => &["a", "b"],
        }
    }

    pub(crate) fn mode(self) -> Mode {
        if self == Self::Read { Mode::Shared } else { Mode::Exclusive }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One(_) => "grants of one key",
            Self::Read => "grants to readers",
            Self::Write { .. } => "grants to writers",
            Self::All => "grants of all keys",
        }
    }

    pub(crate) fn request(self, locks: &LockManager) -> LockRequest {
        match self {
            Self::One(keys) => locks.lock(keys[0]),
            Self::Read => locks.read("a"),
            Self::Write { .. } => locks.write("a"),
            Self::All => locks.all(["a", "b"]),
        }
    }
}

impl Turn {
    pub(crate) fn new(rng: &mut Rng, plan: &Plan) -> Self {
        let ttl = plan.max_ttl.mul_f64([0.3, 0.5, 1.0, 1.0][rng.usize(..4)]);
        let renewed = rng.u8(..5) < 2;
        let end = match rng.u8(..10) {
            0..=4 => End::Released,
            5..=6 => End::Dropped,
            _ => End::Lost,
        };
        let most = ttl.mul_f64(if renewed { 2.5 } else { 0.9 });
        let how = match rng.u8(..10) {
            0..=5 => How::Guard,
            6..=7 => How::Run,
            _ => How::Nested,
        };
        let waits = match rng.u8(..10) {
            0..=4 => Waits::No,
            5..=7 => Waits::For(ms(rng.u64(50..1_500))),
            _ => Waits::Forever,
        };
        Self {
            ask: Ask::new(rng, plan.asks),
            how,
            ttl,
            renewed,
            fencing: rng.bool(),
            waits,
            gives_up: (rng.u8(..10) == 0).then(|| ms(rng.u64(1..40))),
            time: most.mul_f64(rng.f64() * rng.f64()),
            end: if renewed && end == End::Lost { End::Released } else { end },
            in_background: rng.u8(..3) == 0,
            careless: rng.u8(..3) == 0,
        }
    }

    /// Returns the request of this round, for a client with this lapse.
    pub(crate) fn request(&self, locks: &LockManager, lapse: Lapse) -> LockRequest {
        let request = self.ask.request(locks).ttl(self.ttl).renew(self.renewed).fencing(self.fencing);
        let request = match self.waits {
            Waits::No => request.strategy(strategy::fail_fast()),
            Waits::For(limit) => request.strategy(strategy::retry().within(limit)),
            Waits::Forever if lapse == Lapse::GivesUpWaiting => {
                request.strategy(strategy::retry().within(ms(50)))
            }
            Waits::Forever => request.strategy(strategy::wait()),
        };
        let request = if self.in_background { request.release(Release::Background) } else { request };
        request.on_lost(if lapse == Lapse::GoesOnWhenLost { OnLost::Finish } else { OnLost::Cancel })
    }

    /// Returns the duration of the hold.
    pub(crate) fn time(&self) -> Duration {
        if self.end == End::Lost { self.ttl * 2 } else { self.time }
    }
}
