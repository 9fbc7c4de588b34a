//! Tests claims of several keys, and the notification of the holder.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Claims, TTL};
use crate::backend::memory::Memory;
use crate::backend::{
    Ask, Attempt, Backend, Claim, LatchState, LatchStep, Listener, Mode, Queue, Released, Renew, Renewal,
};
use crate::clock::Clock;
use crate::key::Key;
use crate::owner::Owner;

#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl Listener for Told {
    fn granted(&self, _owner: Owner, _waiters: usize) {
        self.0.lock().expect("no panic").push("granted".to_owned());
    }

    fn contended(&self, key: &str) {
        self.0.lock().expect("no panic").push(format!("contended {key}"));
    }

    fn opened(&self, key: &str) {
        self.0.lock().expect("no panic").push(format!("opened {key}"));
    }

    fn reconnected(&self) {}
}

fn all(claims: &Claims, queue: Queue, keys: &[&str]) -> Claim {
    let mut keys: Vec<_> = keys.iter().map(|key| Key::new(key).expect("a key")).collect();
    keys.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let first = keys.remove(0);
    Claim { more: keys.into(), ..claims.claim(first.as_str(), Mode::Exclusive, queue) }
}

async fn granted(memory: &Memory, claim: &Claim) -> bool {
    matches!(memory.acquire(claim, Ask::Enqueue { room: None }).await, Ok(Attempt::Granted(_)))
}

/// Many tasks acquire and release claims of random keys. No task waits forever, and no key has two owners.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_sets_of_keys_exclude_each_other_and_all_are_served() {
    let memory = Memory::new();
    let owners: Arc<[Mutex<Option<usize>>; 6]> = Arc::default();
    let worker = |worker: usize| {
        let (memory, owners, claims) = (memory.clone(), Arc::clone(&owners), Claims::new());
        async move {
            let mut random = fastrand::Rng::with_seed(worker as u64);
            for _ in 0..150 {
                let mut numbers: Vec<usize> = (0..6).collect();
                random.shuffle(&mut numbers);
                numbers.truncate(random.usize(1..4));
                let keys: Vec<_> = numbers.iter().map(|number| format!("k{number}")).collect();
                let queue = if random.bool() { Queue::Fifo } else { Queue::Barging };
                let claim = all(&claims, queue, &keys.iter().map(String::as_str).collect::<Vec<_>>());
                while !granted(&memory, &claim).await {
                    memory.changed(&claim).await;
                }
                for number in &numbers {
                    assert_eq!(owners[*number].lock().expect("no panic").replace(worker), None);
                }
                tokio::task::yield_now().await;
                for number in &numbers {
                    assert_eq!(owners[*number].lock().expect("no panic").take(), Some(worker));
                }
                assert_eq!(memory.give_back(&claim, None, Clock::Tokio.now()), Released::Released);
            }
        }
    };
    let workers: Vec<_> = (0..8).map(|number| tokio::spawn(worker(number))).collect();
    let done = async {
        for worker in workers {
            worker.await.expect("no panic");
        }
    };
    tokio::time::timeout(Duration::from_secs(8), done).await.expect("somebody waits for ever");
    assert_eq!(memory.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_several_keys_ends_when_all_are_free_and_leaves_nothing() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (a, b) = (claims.fifo("a", Mode::Exclusive), claims.fifo("b", Mode::Exclusive));
    assert!(granted(&memory, &a).await && granted(&memory, &b).await);
    let both = all(&claims, Queue::Barging, &["b", "a"]);
    assert!(!granted(&memory, &both).await);
    memory.give_back(&a, None, Clock::Tokio.now());
    let early = tokio::time::timeout(TTL / 2, memory.changed(&both)).await;
    assert!(early.is_err(), "one of two is free");
    let late = claims.fifo("a", Mode::Exclusive);
    assert!(!granted(&memory, &late).await, "the older claim of both has its place");
    memory.give_back(&b, None, Clock::Tokio.now());
    tokio::time::timeout(Duration::from_millis(1), memory.changed(&both)).await.expect("both are free");
    assert!(granted(&memory, &both).await);
    assert!(matches!(
        memory.renew(&[Renew { claim: &both, ttl: TTL }]).await[..],
        [Renewal::Renewed { waiters: Some(1), .. }]
    ));
    memory.give_back(&both, None, Clock::Tokio.now());
    memory.give_back(&late, None, Clock::Tokio.now());
    assert_eq!(memory.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn awaiting_several_keys_takes_a_place_in_every_queue() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (held, both) = (claims.exclusive("a"), all(&claims, Queue::Barging, &["a", "b"]));
    assert!(granted(&memory, &held).await);
    assert!(matches!(memory.acquire(&both, Ask::Try).await, Ok(Attempt::Held(_))));
    assert!(tokio::time::timeout(Duration::from_millis(1), memory.changed(&both)).await.is_err());
    let Ok(Attempt::Held(behind)) =
        memory.acquire(&claims.fifo("b", Mode::Exclusive), Ask::Enqueue { room: None }).await
    else {
        panic!("the other was first")
    };
    assert_eq!(behind.position, Some(1));
}

#[tokio::test(start_paused = true)]
async fn single_grants_that_become_one_have_one_token_above_all() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let both = all(&claims, Queue::Barging, &["a", "b"]);
    let mut last = None;
    for key in both.keys() {
        let single = Claim { key: key.clone(), more: [].into(), ..both.clone() };
        let Ok(Attempt::Granted(grant)) = memory.acquire(&single, Ask::Try).await else {
            panic!("it is free")
        };
        last = last.max(grant.fence);
    }
    let Ok(Attempt::Granted(grant)) = memory.acquire(&both, Ask::Try).await else {
        panic!("they are its own")
    };
    assert!(grant.fence > last);
    assert_eq!(memory.fence(&both).await.ok(), grant.fence, "asked again");
}

#[tokio::test(start_paused = true)]
async fn the_holder_is_told_of_the_first_who_waits_and_of_no_waiter_of_its_own() {
    let (memory, ours, theirs) = (Memory::new(), Claims::new(), Claims::new());
    let told = Arc::new(Told::default());
    let weak = Arc::downgrade(&told);
    memory.attach(ours.owners.process(), weak, None);
    let holder = ours.exclusive("k");
    assert!(granted(&memory, &holder).await);
    let local = ours.exclusive("k");
    assert!(!granted(&memory, &local).await);
    assert!(tokio::time::timeout(Duration::from_millis(1), memory.changed(&local)).await.is_err());
    assert_eq!(told.take(), Vec::<String>::new(), "the manager's own affair");
    let strangers = [(); 2].map(|()| theirs.exclusive("k"));
    for stranger in &strangers {
        assert!(!granted(&memory, stranger).await);
    }
    assert_eq!(told.take(), ["contended k"]);
    for stranger in &strangers {
        memory.give_back(stranger, None, Clock::Tokio.now());
    }
    assert!(!granted(&memory, &theirs.exclusive("k")).await);
    assert_eq!(told.take(), ["contended k"], "a queue that was empty meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_local_waiter_asks_for_a_place_once_another_manager_has_the_key() {
    let (memory, ours, theirs) = (Memory::new(), Claims::new(), Claims::new());
    let (holder, local, stranger) = (ours.exclusive("k"), ours.exclusive("k"), theirs.exclusive("k"));
    assert!(granted(&memory, &holder).await);
    assert!(!granted(&memory, &local).await);
    assert!(!granted(&memory, &stranger).await);
    let waits = memory.changed(&local);
    tokio::pin!(waits);
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut waits).await.is_err());
    memory.give_back(&holder, None, Clock::Tokio.now());
    assert!(granted(&memory, &stranger).await);
    tokio::time::timeout(Duration::from_millis(1), waits).await.expect("it is to ask");
    let Ok(Attempt::Held(held)) = memory.acquire(&local, Ask::Enqueue { room: None }).await else {
        panic!("it is held")
    };
    assert_eq!((held.own, held.position), (false, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn a_latch_leaves_no_entry_behind_and_tells_each_process_once() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let told = Arc::new(Told::default());
    memory.attach(claims.owners.process(), Arc::downgrade(&told) as _, None);
    let key = Key::new("k").expect("a key");
    let owner = claims.owners.mint();
    let set = LatchStep::Set { count: 1, owner, ttl: TTL };
    assert!(matches!(memory.latch(&key, &LatchStep::Look).await, Ok(LatchState::Unset)));
    assert_eq!(memory.in_use(), 0);
    let _ = memory.latch(&key, &set).await;
    for _ in 0..3 {
        let _ = memory.latch(&key, &LatchStep::Wait { process: owner.process(), ttl: TTL }).await;
    }
    let error = memory.acquire(&claims.exclusive("k"), Ask::Try).await.expect_err("another kind");
    assert!(error.to_string().contains("a count-down latch"), "{error}");
    for _ in 0..2 {
        let state = memory.latch(&key, &LatchStep::CountDown { owner, ttl: TTL }).await;
        assert!(matches!(state, Ok(LatchState::Set { left: 0, .. })), "{state:?}");
    }
    assert_eq!(told.take(), ["opened k"]);
    tokio::time::advance(TTL).await;
    assert!(matches!(memory.latch(&key, &LatchStep::Look).await, Ok(LatchState::Unset)));
    assert_eq!(memory.in_use(), 0);
    let nothing = LatchStep::Set { count: 0, owner, ttl: TTL };
    memory.latch(&key, &nothing).await.expect_err("open from the start");
}
