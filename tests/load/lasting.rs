//! Holds that outlast their lease, are extended and downgraded, and keep their key after the release.

use std::time::Duration;

use lock_core::backend::Mode;
use tokio::time::{sleep, timeout};

use super::{Held, Kind, Worker, ms};

/// Which holds last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasting {
    /// One hold of so many lasts, and one request of so many has a `min_hold`.
    pub(crate) one_of: u8,
    /// The longest of them; the shortest lasts half as long.
    pub(crate) longest: Duration,
    /// They extend their lease to at most so many times the ttl.
    pub(crate) extends_to: u32,
    pub(crate) min_hold: Duration,
}

impl Worker {
    /// Holds for at most the longest time, and changes the lease meanwhile. `None` when the lock was released by that.
    pub(super) async fn last(&mut self, mut held: Held, lasting: Lasting) -> Option<Held> {
        let until = held.acquired + lasting.longest.mul_f64(0.5 + 0.5 * self.random.f64());
        loop {
            let now = self.history.now();
            if now >= until || held.guard.check().is_err() {
                return Some(held);
            }
            held.certain = held.certain.max(now + held.guard.remaining());
            match self.random.u8(..8) {
                0 if held.kind == Kind::Write => held = self.downgrade(held).await?,
                1 | 2 => {
                    let ttl = self.load.ttl * self.random.u32(1..=lasting.extends_to);
                    let patience =
                        if self.random.bool() { Duration::MAX } else { ms(self.random.u64(0..20)) };
                    // If it fails or is given up, the old lease continues.
                    drop(timeout(patience, held.guard.extend(ttl)).await);
                }
                _ => sleep(ms(self.random.u64(20..400))).await,
            }
        }
    }

    /// Turns a writer into a reader: another hold, whose token is the same.
    async fn downgrade(&mut self, held: Held) -> Option<Held> {
        self.record(&held);
        let guard = held.guard.downgrade().await.ok()?;
        let acquired = self.history.now();
        let certain = acquired + guard.remaining();
        Some(Held { guard, kind: Kind::Read, mode: Mode::Shared, acquired, certain, fence: None, ..held })
    }
}
