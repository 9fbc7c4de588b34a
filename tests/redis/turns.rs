//! A process hands on a grant that the store has forgotten, while the next holder has the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::clock::Clock;
use lock_core::testkit::history::History;
use lock_core::{LockManager, strategy};
use lock_tests::{PATIENCE, wait_until};
use tokio::task::JoinSet;

/// A ttl that is so long that no process loses its lock by time.
const TTL: Duration = Duration::from_secs(60);

/// A process whose tasks hand one key to each other.
struct Old {
    clock: History,
    /// The time at which each task got the lock, and its token.
    turns: Arc<Mutex<Vec<(Duration, u64)>>>,
    tasks: JoinSet<()>,
}

impl Old {
    fn start(locks: &LockManager, key: &str) -> Self {
        let (clock, turns) = (History::new(Clock::Suspend), Arc::default());
        let mut old = Self { clock, turns, tasks: JoinSet::new() };
        for number in 0..8 {
            // Half of the tasks get the token with the grant, and half get it on demand.
            let request = locks.lock(key).ttl(TTL).fencing(number % 2 == 0).strategy(strategy::wait());
            let (clock, turns) = (old.clock.clone(), Arc::clone(&old.turns));
            old.tasks.spawn(async move {
                loop {
                    let Ok(guard) = request.clone().acquire().await else { continue };
                    let began = clock.now();
                    if let Ok(token) = guard.fencing_token().await
                        && guard.is_held()
                    {
                        turns.lock().unwrap_or_else(PoisonError::into_inner).push((began, token.get()));
                    }
                    let _ = guard.release().await;
                }
            });
        }
        old
    }

    fn turns(&self) -> MutexGuard<'_, Vec<(Duration, u64)>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The actions of the old process while the next holder had the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The number of its tasks that got the lock while the next holder had it.
    pub(crate) turns: usize,
    /// The number of tokens of the old process that are not smaller than the next holder's token. They may be from
    /// before or during that time. The resource would accept a write of the old process with such a token, and then
    /// refuse the only process that holds the lock.
    pub(crate) larger: usize,
}

/// Lets the old process hand its lock on `turns` times, then makes the store forget the grant, and lets `next` hold the
/// lock for `hold`. Returns `None` if the old process acquires the lock again first.
pub(crate) async fn beside(
    (old, next): (&LockManager, &LockManager),
    key: &str,
    (turns, hold): (usize, Duration),
    forget: impl FnOnce(),
) -> Option<Beside> {
    let mut old = Old::start(old, key);
    wait_until("turns", PATIENCE, async || old.turns().len() > turns).await;
    forget();
    let request = next.lock(key).ttl(TTL).fencing(true).strategy(strategy::fail_fast());
    let guard = request.acquire().await.ok()?;
    let token = guard.fencing_token().await.expect("it came with the grant").get();
    let since = old.clock.now();
    tokio::time::sleep(hold).await;
    let until = old.clock.now();
    old.tasks.shutdown().await;
    guard.check().expect("nobody takes it away");
    guard.release().await.ok();
    let turns = old.turns();
    let until_then = || turns.iter().filter(|(began, _)| *began < until);
    Some(Beside {
        turns: until_then().filter(|(began, _)| *began > since).count(),
        larger: until_then().filter(|(_, other)| *other >= token).count(),
    })
}
