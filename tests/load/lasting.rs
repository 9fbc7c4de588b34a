//! Holds that are longer than their lease, are extended and downgraded, and keep their key after the release.

use std::time::Duration;

use lock_core::backend::Mode;
use tokio::time::{sleep, timeout};

use super::{Held, Kind, Worker, ms};

/// The settings of the long holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasting {
    /// One hold out of this number is long, and one request out of this number has a `min_hold`.
    pub(crate) one_of: u8,
    /// The longest duration of a long hold. The shortest is half of it.
    pub(crate) longest: Duration,
    /// A long hold extends its lease to at most this many times the ttl.
    pub(crate) extends_to: u32,
    pub(crate) min_hold: Duration,
}

impl Worker {
    /// Holds for at most the longest time, and changes the lease meanwhile. Returns `None` if this released the lock.
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
                    // If the extend fails or is given up, the old lease continues.
                    drop(timeout(patience, held.guard.extend(ttl)).await);
                }
                _ => sleep(ms(self.random.u64(20..400))).await,
            }
        }
    }

    /// Turns a writer into a reader. This is another hold with the same token.
    async fn downgrade(&mut self, held: Held) -> Option<Held> {
        self.record(&held);
        let guard = held.guard.downgrade().await.ok()?;
        let acquired = self.history.now();
        let certain = acquired + guard.remaining();
        Some(Held { guard, kind: Kind::Read, mode: Mode::Shared, acquired, certain, fence: None, ..held })
    }
}
