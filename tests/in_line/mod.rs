//! A line of tasks, in several processes, that wait for one fair lock. The tests of several stores include this module.
#![allow(dead_code, unused_imports, reason = "each store uses its part")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{LockGuard, LockManager, LockRequest, LossReason, strategy};
use lock_tests::{PATIENCE, wait_until};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{LONG, within};

mod counted;

pub(crate) use counted::Counted;

/// A server that counts the requests which got a place.
pub(crate) trait Places {
    /// Returns how many there were so far, those that share a place included.
    fn placed(&self) -> u64;
}

/// The tasks that got the key, in order, each with its token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants(Arc<Mutex<Vec<(usize, u64)>>>);

impl Grants {
    fn list(&self) -> MutexGuard<'_, Vec<(usize, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, task: usize, token: u64) {
        self.list().push((task, token));
    }

    pub(crate) fn order(&self) -> Vec<usize> {
        self.list().iter().map(|(task, _)| *task).collect()
    }

    pub(crate) fn check_tokens(&self) {
        let list = self.list();
        assert!(list.windows(2).all(|pair| pair[0].1 < pair[1].1), "tokens grow: {list:?}");
    }
}

/// A request that waits without end, with a lease that only a release ends.
pub(crate) fn fair(locks: &LockManager) -> LockRequest {
    locks.fair("k").ttl(LONG).strategy(strategy::wait())
}

/// Lets a task wait for the key, and release it at once.
pub(crate) async fn turn(
    server: &impl Places,
    number: usize,
    request: LockRequest,
    grants: &Grants,
) -> JoinHandle<()> {
    let before = server.placed();
    let task = waits(number, request, grants);
    wait_until("it has a place", PATIENCE, async || server.placed() > before).await;
    task
}

fn waits(number: usize, request: LockRequest, grants: &Grants) -> JoinHandle<()> {
    let (request, grants) = (request.fencing(true).strategy(strategy::wait()), grants.clone());
    tokio::spawn(async move {
        let guard = request.acquire().await.expect("granted");
        let token = guard.fencing_token().await.expect("it came with the grant").get();
        grants.note(number, token);
        guard.release().await.expect("an answer");
    })
}

/// Has tasks of these processes wait in waves: a wave begins when all tasks of the one before it have their places. Some of
/// them give up. Checks that no task overtakes one of an earlier wave.
pub(crate) async fn served_by_waves(server: &impl Places, processes: &[LockManager], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut some = |limit: usize| random.usize(..limit);
    let held = fair(&processes[some(processes.len())]).acquire().await.expect("it is free");
    let (grants, before, mut tasks) = (Grants::default(), server.placed(), Vec::new());
    for wave in 0..10 {
        // One of a process at most: two would be one request, and one place.
        for process in processes.iter().filter(|_| some(2) == 0) {
            tasks.push(waits(wave, fair(process), &grants));
        }
        let all = before + u64::try_from(tasks.len()).expect("few");
        wait_until("all have a place", PATIENCE, async || server.placed() == all).await;
    }
    let gone: Vec<bool> = tasks.iter().map(|_| some(4) == 0).collect();
    tasks.iter().zip(&gone).filter(|(_, gone)| **gone).for_each(|(task, _)| task.abort());
    held.release().await.expect("an answer");
    let served = gone.iter().filter(|gone| !**gone).count();
    for (task, gone) in tasks.into_iter().zip(gone) {
        assert!(within(PATIENCE, "a turn", task).await.is_ok() || gone, "seed {seed}");
    }
    let order = grants.order();
    assert!(order.is_sorted() && order.len() >= served, "seed {seed}: {order:?}");
    grants.check_tokens();
}

/// Waits, as one task after another, each with its place before the next one begins.
pub(crate) async fn line(
    server: &impl Places,
    order: &[&LockManager],
    grants: &Grants,
) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for (number, locks) in order.iter().enumerate() {
        tasks.push(turn(server, number, fair(locks), grants).await);
    }
    tasks
}

/// The processes of a line, task by task: each has tasks that stand directly behind each other, and others that do not.
pub(crate) fn mixed<'a>(
    one: &'a LockManager,
    two: &'a LockManager,
    three: &'a LockManager,
) -> [&'a LockManager; 13] {
    [one, one, two, one, one, one, two, two, three, one, two, one, one]
}

/// Returns how many places a [`mixed`] line has: one for each time that the process changes. Those behind the holder of
/// their own process need none.
pub(crate) fn places_of_mixed(holder_is_first: bool) -> u32 {
    8 - u32::from(holder_is_first)
}

/// Releases the lock, and checks that the tasks get it in their order.
pub(crate) async fn served_in_order(held: LockGuard, tasks: Vec<JoinHandle<()>>, grants: &Grants) {
    let all = tasks.len();
    held.release().await.expect("an answer");
    for task in tasks {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    assert_eq!(grants.order(), (0..all).collect::<Vec<_>>());
    grants.check_tokens();
}

/// Lets three tasks of one process wait behind their own holder, and one of another process behind them. Then the server
/// `forgets` the grant. Checks that all of them get the key again, one by one.
pub(crate) async fn lost_as_one(
    server: &impl Places,
    one: &LockManager,
    two: &LockManager,
    ttl: Duration,
    forgets: impl AsyncFnOnce(),
) {
    let request = |locks: &LockManager| fair(locks).ttl(ttl);
    let first = request(one).acquire().await.expect("it is free");
    let (working, holders) = (Arc::new(Mutex::new(0)), Arc::new(Notify::new()));
    let mut tasks = JoinSet::new();
    for locks in [one, one, one, two] {
        let before = server.placed();
        tasks.spawn(works_alone(request(locks), Arc::clone(&working), Arc::clone(&holders)));
        wait_until("it has a place", PATIENCE, async || server.placed() > before).await;
    }
    forgets().await;
    assert_eq!(within(PATIENCE, "the loss", first.lost()).await, LossReason::Taken);
    within(PATIENCE, "another grant", holders.notified()).await;
    drop(first);
    within(PATIENCE, "all turns", tasks.join_all()).await;
}

/// Takes one turn, and checks that nobody else works meanwhile.
async fn works_alone(request: LockRequest, working: Arc<Mutex<i32>>, holders: Arc<Notify>) {
    let guard = request.acquire().await.expect("granted");
    let count = |by: i32| {
        let mut working = working.lock().expect("no panic");
        *working += by;
        assert!((0..=1).contains(&*working), "{working} at once");
    };
    count(1);
    holders.notify_one();
    tokio::task::yield_now().await;
    count(-1);
    guard.release().await.expect("an answer");
}

/// Lets tasks of two processes line up behind a holder, and some of them give up. `left` completes when the place of a group that has
/// nobody is gone: then there are four. Checks that the others get the key in their order.
pub(crate) async fn passed_over(
    server: &impl Places,
    one: &LockManager,
    two: &LockManager,
    left: impl AsyncFnOnce(),
) {
    let held = fair(two).acquire().await.expect("it is free");
    let grants = Grants::default();
    let tasks = line(server, &[one, one, one, two, one, one, one, two, one], &grants).await;
    // The head of a group, one in the middle, the last, and a whole group.
    let gone = [0, 5, 6, 8];
    for number in gone {
        tasks[number].abort();
    }
    left().await;
    held.release().await.expect("an answer");
    for (number, task) in tasks.into_iter().enumerate() {
        let ended = within(PATIENCE, "a turn", task).await;
        assert_eq!(ended.is_err(), gone.contains(&number), "{number}");
    }
    assert_eq!(grants.order(), [1, 2, 3, 4, 7]);
    grants.check_tokens();
}

/// Has tasks of one process release the key and queue again at once, while another process waits. Checks that they ask for
/// their next place together.
pub(crate) async fn come_again(server: &impl Places, one: &LockManager, two: &LockManager) {
    // Where the answer to a release takes 250 ms, as on a busy machine, nobody waits for it any longer.
    let mut rounds = Vec::new();
    for _ in 0..3 {
        rounds.push(requests_of_second_turns(server, one, two).await);
        if rounds.ends_with(&[1]) {
            return;
        }
    }
    panic!("one request for four, in one of three rounds: {rounds:?}");
}

/// Lets four tasks of the process `one` have the key twice, and one of `two` once, which waits when the first turns begin
/// and holds the key until somebody waits for a second turn. Returns how many requests for a place the second turns took.
async fn requests_of_second_turns(server: &impl Places, one: &LockManager, two: &LockManager) -> u64 {
    let held = fair(two).acquire().await.expect("it is free");
    let (grants, mut tasks) = (Grants::default(), Vec::new());
    for number in 0..4 {
        let before = server.placed();
        tasks.push(tokio::spawn(two_turns(fair(one), number, grants.clone())));
        wait_until("it has a place", PATIENCE, async || server.placed() > before).await;
    }
    let before = server.placed();
    let rival = tokio::spawn(fair(two).acquire());
    wait_until("it has a place", PATIENCE, async || server.placed() > before).await;
    let before = server.placed();
    held.release().await.expect("an answer");
    let rival = within(PATIENCE, "its turn", rival).await.expect("no panic").expect("granted");
    grants.note(4, 0);
    // Whoever asks for a key that is free needs no place.
    wait_until("the second turns have a place", PATIENCE, async || server.placed() > before).await;
    rival.release().await.expect("an answer");
    for task in tasks {
        within(PATIENCE, "all turns", task).await.expect("no panic");
    }
    assert_eq!(grants.order(), [0, 1, 2, 3, 4, 10, 11, 12, 13]);
    server.placed() - before
}

/// Takes two turns, without tokens: who asks the store for one does not release at once. The second turn is noted as
/// `number + 10`.
async fn two_turns(request: LockRequest, number: usize, grants: Grants) {
    for number in [number, number + 10] {
        let guard = request.clone().acquire().await.expect("granted");
        grants.note(number, 0);
        guard.release().await.expect("an answer");
    }
}

/// Has tasks of one process hold the key in turn, and returns how many turns that were. Unless places are `shared`, each turn has one
/// of its own.
pub(crate) async fn turns_of_one_process(locks: &LockManager, shared: bool) -> u32 {
    const TASKS: u32 = 8;
    const TURNS: u32 = 25;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            for _ in 0..TURNS {
                let request = fair(&locks);
                let request = if shared { request } else { request.max_waiters(1_000) };
                request.run(async {}).await.expect("granted");
            }
        });
    }
    tasks.join_all().await;
    TASKS * TURNS
}
