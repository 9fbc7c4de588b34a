use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::*;
use crate::backoff::Pauses;
use crate::key::Key;
use crate::owner::{Identity, OwnerRecord, OwnerSource};

const LIMIT: Duration = Duration::from_secs(1);

/// A server whose dials fail as planned by a test. All other dials succeed.
#[derive(Debug, Default)]
struct Fake<const SHARES: bool = false> {
    /// The number of announced dials.
    announced: AtomicU32,
    /// The number of connections after the first one.
    reconnected: AtomicU32,
    planned: Mutex<Vec<Failure<()>>>,
    lose: Notify,
    panics: AtomicBool,
    /// How long a dial takes.
    takes: Duration,
}

impl<const SHARES: bool> Connector for Fake<SHARES> {
    type Connection = u32;
    type Session = Arc<u32>;
    type Reaction = ();
    /// The number of connections that were lost.
    type Legacy = u32;

    const PAUSES: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(20));
    const SHARES: bool = SHARES;

    fn address(&self) -> impl fmt::Display {
        "fake"
    }

    fn connection(session: &Arc<u32>) -> &Arc<u32> {
        session
    }

    fn is_usable(_connection: &u32) -> bool {
        true
    }

    fn dials(&self) {
        self.announced.fetch_add(1, Ordering::Relaxed);
    }

    fn dial_limits(&self) -> (Duration, Duration) {
        (LIMIT, 8 * LIMIT)
    }

    async fn dial(&self, _limit: Duration) -> Result<Arc<u32>, Failure<()>> {
        tokio::time::sleep(self.takes).await;
        match self.planned.lock().expect("no panic").pop() {
            Some(failure) => Err(failure),
            None => Ok(Arc::new(7)),
        }
    }

    fn reconnected(&self, _session: &Arc<u32>) {
        self.reconnected.fetch_add(1, Ordering::Relaxed);
    }

    async fn watch(&self, session: &mut Arc<u32>, lost: &mut u32, _pauses: &mut Pauses) -> Failure<()> {
        self.lose.notified().await;
        assert!(!self.panics.load(Ordering::Relaxed), "the log panics");
        *lost += 1;
        Failure::new(LockErrorKind::Unavailable, format!("lost {session} for the {lost}. time"))
    }
}

fn unavailable() -> Failure<()> {
    Failure::new(LockErrorKind::Unavailable, "down")
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_dialled_again_until_it_is_there() {
    let fake = Arc::new(<Fake>::default());
    let connections = PerRuntime::new(Arc::clone(&fake), Some(Arc::new(1)));
    assert_eq!(*connections.get().await.expect("the first"), 1);
    fake.planned.lock().expect("no panic").extend([unavailable(), unavailable()]);
    for lost in 1..=2 {
        fake.lose.notify_one();
        while connections.current().is_some() {
            tokio::task::yield_now().await;
        }
        let failure = connections.failure().expect("it says why");
        assert!(failure.text().ends_with(&format!("for the {lost}. time")), "{failure:?}");
        assert_eq!(*connections.get().await.expect("another"), 7);
        assert!(connections.failure().is_none());
    }
    // There is at least one dial after each loss.
    assert!(fake.announced.load(Ordering::Relaxed) >= 2);
    assert_eq!(fake.reconnected.load(Ordering::Relaxed), 2, "the first connection does not count");
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_panics_is_followed_by_another() {
    let fake = Arc::new(<Fake>::default());
    let connections = PerRuntime::new(Arc::clone(&fake), Some(Arc::new(1)));
    fake.panics.store(true, Ordering::Relaxed);
    fake.lose.notify_one();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*connections.get().await.expect("another"), 7);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_waited_out() {
    let fake = Arc::new(<Fake>::default());
    fake.planned.lock().expect("no panic").extend([unavailable().permanent(), unavailable()]);
    let connections = PerRuntime::new(fake, None);
    assert!(connections.get().await.expect_err("it is permanent").is_permanent());
    tokio::time::sleep(Duration::from_millis(21)).await;
    assert_eq!(*connections.get().await.expect("the next dial succeeds"), 7);
}

/// Refused dials become rare, because a server logs each of them.
#[tokio::test(start_paused = true)]
async fn a_dial_that_is_refused_is_repeated_ever_less_often() {
    let fake = Arc::new(<Fake>::default());
    fake.planned.lock().expect("no panic").extend((0..100).map(|_| unavailable().permanent()));
    let connections = PerRuntime::new(Arc::clone(&fake), None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(connections.get().await.expect_err("it is refused").is_permanent());
    let left = fake.planned.lock().expect("no panic").len();
    assert!((70..85).contains(&left), "{left} of 100 are left after a minute");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Returns a server that fails this number of dials.
fn refuses(dials: usize, failure: &Failure<()>) -> Fake<true> {
    let refuses = Fake::default();
    refuses.planned.lock().expect("no panic").extend(vec![failure.clone(); dials]);
    refuses
}

#[tokio::test]
async fn a_runtime_without_a_connection_uses_that_of_another() {
    let hangs = Fake { takes: 10 * LIMIT, ..Fake::default() };
    for fake in [refuses(100, &unavailable()), refuses(100, &unavailable().permanent()), hangs] {
        let connections = PerRuntime::new(Arc::new(fake), Some(Arc::new(1)));
        let elsewhere = move || runtime().block_on(async { connections.get().await.map(|one| *one) });
        let elsewhere = tokio::task::spawn_blocking(elsewhere).await;
        assert_eq!(elsewhere.expect("no panic").expect("that of this runtime"), 1);
    }
}

#[test]
fn a_connection_whose_runtime_stands_still_is_not_used() {
    let slow = Fake { takes: 2 * OWN, ..Fake::default() };
    for (fake, own) in [
        (refuses(1, &unavailable()), Some(7)),
        (slow, Some(7)),
        // Callers receive this failure at once.
        (refuses(100, &unavailable().permanent()), None),
    ] {
        let first = runtime();
        let connections = first.block_on(async { PerRuntime::new(Arc::new(fake), Some(Arc::new(1))) });
        let got = runtime().block_on(async { connections.get().await.map(|one| *one) });
        assert_eq!(got.ok(), own);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_attempt_is_in_doubt_only_if_its_claim_was_sent() {
    /// Marks its claim on drop, as a request of Postgres does.
    struct Marks<'a>(&'a Claim);

    impl Drop for Marks<'_> {
        fn drop(&mut self) {
            self.0.mark_sent();
        }
    }

    let connections = PerRuntime::new(Arc::new(<Fake>::default()), Some(Arc::new(1)));
    let owner = OwnerSource::new().expect("random bytes").mint();
    let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
    let claim = Claim::new(Key::new("k").expect("a key"), owner, LIMIT, record);
    for (sent, expected) in [(false, "no connection within 1s"), (true, "no answer within 1s")] {
        let marks = sent.then(|| Marks(&claim));
        let attempt = async {
            let _marks = marks;
            std::future::pending::<Result<(), Failure<()>>>().await
        };
        let failure = connections.attempt(LIMIT, &claim, attempt).await.expect_err("it never ends");
        let error = failure.error_of("store");
        assert!(error.is_ambiguous() == sent && error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_dials_no_more() {
    let connections = PerRuntime::idle(Arc::new(<Fake>::default()));
    assert_eq!(*connections.get().await.expect("it dials"), 7);
    connections.close();
    assert!(connections.current().is_none());
    let failure = connections.get().await.expect_err("it is closed");
    assert_eq!(failure.kind(), LockErrorKind::ShuttingDown);
}
