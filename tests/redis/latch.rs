//! Count-down latches, step by step.

use lock_core::LockErrorKind;
use lock_core::backend::{Ask, Backend, LatchState, LatchStep, Mode, Queue, Released, Renewal};
use lock_core::key::Key;
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::store::{Process, Told, all_expire, names_both};
use crate::support::{LONG, manager, ms, within};

async fn start() -> (RedisServer, Process) {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    (server, process)
}

fn left(state: LatchState) -> (u32, bool) {
    match state {
        LatchState::Set { left, by_us, .. } => (left, by_us),
        LatchState::Unset => panic!("not set"),
    }
}

#[tokio::test]
async fn a_latch_opens_once_and_tells_those_who_wait() {
    let (server, process) = start().await;
    let other = Process::of(&server).await;
    let key = Key::new("start").expect("a key");
    let step = async |process: &Process, step| process.redis.latch(&key, &step).await.expect("an answer");
    let (setter, counters) = (process.owner(), [process.owner(), other.owner()]);
    assert_eq!(step(&process, LatchStep::Look).await, LatchState::Unset);
    let wait = |process: &Process| LatchStep::Wait { process: process.number(), ttl: LONG };
    let count = |owner| LatchStep::CountDown { owner, ttl: LONG };
    assert_eq!(step(&process, count(counters[0])).await, LatchState::Unset);
    let set = |owner, count| LatchStep::Set { count, owner, ttl: ms(5_000) };
    assert_eq!(left(step(&process, set(setter, 2)).await), (2, true));
    assert_eq!(left(step(&process, set(setter, 2)).await), (2, true));
    assert_eq!(left(step(&other, set(other.owner(), 9)).await), (2, false), "it is set once");
    assert_eq!(left(step(&other, wait(&other)).await), (2, false));
    assert!(server.get::<i64>(&["PTTL", "start"]) > 50_000, "kept alive by who waits");
    for _ in 0..2 {
        assert_eq!(left(step(&process, count(counters[0])).await).0, 1, "an owner counts once");
    }
    assert!(other.told().is_empty());
    all_expire(&server);
    assert_eq!(left(step(&process, count(counters[1])).await).0, 0);
    other.is_told(&Told::Opened("start".to_owned())).await;
    assert_eq!(left(step(&process, count(process.owner())).await).0, 0);
    assert_eq!(left(step(&process, LatchStep::Look).await).0, 0);
    assert_eq!(left(step(&process, set(setter, 2)).await), (0, true));
    assert_eq!((process.told().len(), other.told().len()), (0, 1));
    assert_eq!(server.keys(), ["start"]);
    all_expire(&server);
}

#[tokio::test]
async fn a_latch_and_a_lock_do_not_share_a_key() {
    let (server, process) = start().await;
    let (latch, lock) = (Key::new("latch").expect("a key"), Key::new("lock").expect("a key"));
    let set = LatchStep::Set { count: 1, owner: process.owner(), ttl: ms(2_000) };
    process.redis.latch(&latch, &set).await.expect("an answer");
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 2 }] {
        let claim = process.claim("latch", mode, Queue::Barging);
        let error = process.redis.acquire(&claim, Ask::Try).await.expect_err("it is a latch");
        names_both(&error, "a count-down latch", "a");
        assert_eq!(process.release(&claim).await, Released::Taken);
        assert!(matches!(process.renew(&claim, LONG).await, Renewal::NotOwned));
    }
    process.take(&process.fifo("lock")).await;
    let error = process.redis.latch(&lock, &set).await.expect_err("it is a lock");
    names_both(&error, "an exclusive lock", "a count-down latch");
    wait_until("the latch ends with its lease", PATIENCE, async || server.keys() == ["lock"]).await;
}

/// Tests the public latch, with several managers.
#[tokio::test]
async fn managers_count_one_latch_down_and_all_who_wait_are_let_through() {
    let server = RedisServer::start();
    let managers = [manager(&server).await, manager(&server).await, manager(&server).await];
    let latches = managers.each_ref().map(|locks| locks.latch("start").ttl(LONG));
    let waiting: Vec<_> = latches
        .iter()
        .chain(&latches)
        .map(|latch| {
            let latch = latch.clone();
            // The waiters arrive in sequence. The latch is not set yet when the first three arrive.
            tokio::spawn(async move { latch.wait().await })
        })
        .collect();
    assert_eq!(latches[0].count().await.expect("an answer"), None);
    let set = [latches[0].set(3).await, latches[1].set(5).await, latches[2].set(3).await];
    assert_eq!(set.map(|set| set.expect("an answer")), [true, false, false], "one of them sets it");
    for (latch, left) in latches.iter().zip([2, 1, 0]) {
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "{} have yet to count", left + 1);
        assert_eq!(latch.count_down().await.expect("an answer"), left);
    }
    for waiting in waiting {
        within(PATIENCE, "a wait", waiting).await.expect("no panic").expect("it is open");
    }
    assert_eq!(latches[1].count_down().await.expect("open, and no error"), 0);
    within(PATIENCE, "one who comes late", latches[2].wait()).await.expect("it stays open");
    assert_eq!((latches[1].count().await.expect("an answer"), server.keys().len()), (Some(0), 1));
    all_expire(&server);
}

#[tokio::test]
async fn a_latch_lives_while_somebody_waits_and_is_forgotten_a_ttl_later() {
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let ttl = ms(1_500);
    let (latch, other) = (locks.latch("start").ttl(ttl), others.latch("start").ttl(ttl));
    other.set(2).await.expect("an answer");
    let waiting = tokio::spawn(async move { latch.wait().await });
    // A latch that no process renews expires meanwhile, three times.
    for number in 0..3 {
        let measure = locks.latch(format!("measure{number}")).ttl(ttl);
        measure.set(1).await.expect("an answer");
        let gone = async || measure.count().await.expect("an answer").is_none();
        wait_until("a lease has run out", PATIENCE, gone).await;
    }
    assert!(!waiting.is_finished());
    assert_eq!(other.count_down().await.expect("it is kept alive by who waits"), 1);
    waiting.abort();
    wait_until("it is forgotten", PATIENCE, async || other.count().await.expect("an answer").is_none()).await;
    let error = other.count_down().await.expect_err("it is not set");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    let error = other.wait_within(ms(200)).await.expect_err("nobody sets it");
    assert_eq!(error.kind(), LockErrorKind::TimedOut);
    assert_eq!(server.keys(), Vec::<String>::new());
}
