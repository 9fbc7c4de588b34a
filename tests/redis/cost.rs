//! The server's cost of queue operations, and of fencing tokens for hand-offs.

use lock_core::backend::{Mode, Queue, Released};
use lock_core::strategy;
use lock_tests::RedisServer;
use tokio::task::JoinSet;

use crate::store::Process;
use crate::support::{LONG, calls, connect, cycle, manager};

/// Fills a queue with long-lived claims, in the format in which the scripts write them.
fn fill(server: &RedisServer, waiters: usize) {
    const FILL: &str = "
        local now = redis.call('TIME')[1] * 1000
        for i = 1, tonumber(ARGV[1]) do
          local token = string.format('%048x', i)
          redis.call('ZADD', '{k}:q', i, token)
          redis.call('HSET', '{k}:w', token, string.format('%.0f', now + 600000) .. ' 60000 x host=a pid=1 service= since=1')
        end";
    server.command(&["FLUSHALL"]);
    server.command(&["EVAL", FILL, "0", &waiters.to_string()]);
}

/// The cost of an operation.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// The average time of a script on the server, in microseconds.
    micros: f64,
    /// The number of commands that the scripts called, in total.
    calls: u64,
}

impl Cost {
    const MOST: Self = Self { micros: f64::MAX, calls: u64::MAX };

    /// Returns the cost since the last call.
    fn of(server: &RedisServer) -> Self {
        let mut stats = server.command_stats();
        let (scripts, micros) = stats.remove("evalsha").expect("scripts ran");
        server.command(&["CONFIG", "RESETSTAT"]);
        // The library sends TIME twice a second to read the server's clock, whatever is measured.
        stats.remove("time");
        let calls = stats.values().map(|(calls, _)| calls).sum();
        Self { micros: micros as f64 / scripts as f64, calls }
    }

    fn least(self, other: Self) -> Self {
        Self { micros: self.micros.min(other.micros), calls: self.calls.min(other.calls) }
    }
}

/// Returns the cost of each operation in one round: an attempt that queues, a heartbeat, a cancel, and a release that
/// serves the queue.
async fn costs(server: &RedisServer, process: &Process, waiters: usize) -> [Cost; 4] {
    fill(server, waiters);
    let holder = process.barging("k");
    process.take(&holder).await;
    let claims: Vec<_> = (0..40).map(|_| process.fifo("k")).collect();
    server.command(&["CONFIG", "RESETSTAT"]);
    for claim in &claims {
        process.wait(claim).await;
    }
    let queue = Cost::of(server);
    for claim in &claims {
        process.waits(claim).await;
    }
    let heartbeat = Cost::of(server);
    for claim in &claims {
        process.release(claim).await;
    }
    let cancel = Cost::of(server);
    for _ in 0..10 {
        server.command(&["DEL", "k"]);
        let holder = process.barging("k");
        process.take(&holder).await;
        process.release(&holder).await;
    }
    [queue, heartbeat, cancel, Cost::of(server)]
}

#[tokio::test]
async fn a_long_queue_costs_no_more_than_a_short_one() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    // The test uses the minimum of three runs, so that other processes on the machine do not affect the result.
    let mut least = [[Cost::MOST; 4]; 2];
    for _ in 0..3 {
        for (least, waiters) in least.iter_mut().zip([20, 5_000]) {
            let round = costs(&server, &process, waiters).await;
            *least = std::array::from_fn(|at| least[at].least(round[at]));
        }
    }
    let [short, long] = least;
    for (at, (short, long)) in short.iter().zip(&long).enumerate() {
        assert_eq!(short.calls, long.calls, "{at}: {least:?}");
        // A single call that visits every waiter would take a hundred times as long.
        assert!(long.micros < 5.0 * short.micros, "{at}: {least:?}");
    }
}

/// A process numbers its hand-offs up to the last time that the store has confirmed. One answer covers all earlier
/// microseconds, so the process requests less often the longer it continues.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
async fn a_token_for_every_turn_of_a_process_costs_next_to_no_command() {
    const TASKS: u64 = 8;
    const TURNS: u64 = 1_500;
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let before = calls(&server, "evalsha") + calls(&server, "set");
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            for _ in 0..TURNS {
                let request = locks.lock("k").ttl(LONG).fencing(true).strategy(strategy::wait());
                request.acquire().await.expect("a turn").release().await.expect("handed over");
            }
        });
    }
    tasks.join_all().await;
    let commands = calls(&server, "evalsha") + calls(&server, "set") - before;
    println!("{commands} commands for {} turns with a token each", TASKS * TURNS);
    assert!(commands * 50 < TASKS * TURNS, "{commands} commands for {} turns", TASKS * TURNS);
}

/// Each hold of a fair lock enters the queue and leaves it, whichever process held the lock before.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
async fn a_fair_turn_costs_two_commands() {
    const TURNS: u64 = 100;
    let server = RedisServer::start();
    // The long timeout is for a busy machine that answers late, so no request gives up.
    let url = format!("{}?timeout=10s", server.url());
    let processes = [connect(&url).await, connect(&url).await, connect(&url).await, connect(&url).await];
    for (count, tasks) in [(1, 1), (1, 32), (4, 1), (4, 8)] {
        let before = calls(&server, "evalsha");
        let mut set = JoinSet::new();
        for locks in processes[..count].iter().flat_map(|locks| std::iter::repeat_n(locks, tasks)) {
            let locks = locks.clone();
            set.spawn(async move {
                for _ in 0..TURNS {
                    let request = locks.fair("k").ttl(LONG).strategy(strategy::wait());
                    request.acquire().await.expect("a turn").release().await.expect("an answer");
                }
            });
        }
        set.join_all().await;
        let turns = u64::try_from(count * tasks).expect("few") * TURNS;
        let each = (calls(&server, "evalsha") - before) as f64 / turns as f64;
        println!("{count} processes of {tasks} tasks: {each:.3} commands a fair turn");
        assert!(each <= 2.1, "{count} processes of {tasks} tasks: {each} commands a turn");
    }
}

/// Returns the time on the server, in microseconds, for a writer that gives up after `readers` readers, once with a
/// queue entry and once without.
async fn given_up(server: &RedisServer, process: &Process, readers: usize) -> f64 {
    const READERS: &str = "
        local now = redis.call('TIME')[1] * 1000
        redis.call('ZADD', 'k', '+inf', 'mode shared')
        for i = 1, tonumber(ARGV[1]) do
          redis.call('ZADD', 'k', now + 600000 + i, string.format('%048x', i) .. ' host=a pid=1 service= since=1')
        end
        redis.call('PEXPIRE', 'k', 700000)";
    server.command(&["FLUSHALL"]);
    server.command(&["EVAL", READERS, "0", &readers.to_string()]);
    server.command(&["CONFIG", "RESETSTAT"]);
    for _ in 0..10 {
        let claim = process.claim("k", Mode::Exclusive, Queue::Fifo);
        process.refused(&claim).await;
        assert_eq!(process.release(&claim).await, Released::Taken);
        process.wait(&claim).await;
        assert_eq!(process.release(&claim).await, Released::Taken);
    }
    Cost::of(server).micros
}

#[tokio::test]
async fn a_writer_that_gives_up_costs_no_more_behind_many_readers() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let mut least = [f64::MAX; 2];
    for _ in 0..3 {
        for (least, readers) in least.iter_mut().zip([10, 10_000]) {
            *least = least.min(given_up(&server, &process, readers).await);
        }
    }
    assert!(least[1] < 5.0 * least[0], "{least:?}");
}

/// Returns the number of times that the server has read from a socket.
fn reads(server: &RedisServer) -> u64 {
    server.info("total_reads_processed").parse().expect("a number")
}

/// Returns the average number of commands in one read of the server, while `tasks` tasks acquired and released their
/// keys.
async fn commands_a_read(tasks: u64) -> f64 {
    const CYCLES: u64 = 50;
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let before = reads(&server);
    let mut set = JoinSet::new();
    for task in 0..tasks {
        let locks = locks.clone();
        set.spawn(async move {
            for _ in 0..CYCLES {
                cycle(&locks, &format!("own:{task}")).await;
            }
        });
    }
    set.join_all().await;
    let commands = tasks * CYCLES * 2;
    commands as f64 / (reads(&server) - before) as f64
}

#[tokio::test]
async fn the_commands_of_many_tasks_leave_in_few_packets() {
    let (one, many) = (commands_a_read(1).await, commands_a_read(64).await);
    assert!(one <= 1.0, "a task that is alone waits for its answers: {one} commands a read");
    assert!(many >= 8.0, "{many} commands a read");
}
