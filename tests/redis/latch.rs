//! Count-down latches, step by step.

use lock_core::backend::{Backend, LatchState, LatchStep, Mode, Queue, Released, Renewal};
use lock_core::key::Key;
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::store::{Process, Told, all_expire, names_both};
use crate::support::{LONG, ms};

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
    let set = LatchStep::Set { count: 1, owner: process.owner(), ttl: ms(300) };
    process.redis.latch(&latch, &set).await.expect("an answer");
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 2 }] {
        let claim = process.claim("latch", mode, Queue::Barging);
        let error = process.redis.try_acquire(&claim).await.expect_err("it is a latch");
        names_both(&error, "a count-down latch", "a");
        assert_eq!(process.release(&claim).await, Released::Taken);
        assert!(matches!(process.renew(&claim, LONG).await, Renewal::NotMine));
    }
    process.take(&process.fifo("lock")).await;
    let error = process.redis.latch(&lock, &set).await.expect_err("it is a lock");
    names_both(&error, "an exclusive lock", "a count-down latch");
    wait_until("the latch ends with its lease", PATIENCE, async || server.keys() == ["lock"]).await;
}
