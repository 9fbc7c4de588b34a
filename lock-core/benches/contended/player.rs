//! Tasks that contend for one key. They run in this process or in another process. The other process runs the same
//! program with [`ROLE`] as its first argument.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{LockManager, LockRequest, strategy};

use crate::score::Score;

/// The argument that makes this program a contender.
pub(crate) const ROLE: &str = "contender";

/// Returns `CLOCK_MONOTONIC` in ns, which is one clock for all processes of a machine.
#[allow(clippy::cast_sign_loss, reason = "it counts from the start of the machine")]
pub(crate) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns a request for the contended key: `lock`, `fair`, `read` or `semaphore8`.
pub(crate) fn request(locks: &LockManager, kind: &str) -> LockRequest {
    let request = match kind {
        "lock" => locks.lock("hot"),
        "fair" => locks.fair("hot-fair"),
        "read" => locks.read("hot-read"),
        "semaphore8" => locks.semaphore("hot-semaphore", 8),
        other => panic!("no kind {other}"),
    };
    request.strategy(strategy::wait())
}

/// The work of a task while it holds the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Empty,
    /// The task yields once, so that other tasks find the key held even if nothing else waits.
    Yield,
}

impl Section {
    pub(crate) async fn run(self) {
        if self == Self::Yield {
            tokio::task::yield_now().await;
        }
    }
}

/// Runs `tasks` tasks that acquire and release until `until` (in ns of [`now`]). Counts only the grants from `from` on.
pub(crate) async fn contend(
    locks: &LockManager,
    kind: &str,
    tasks: usize,
    section: Section,
    (from, until): (u64, u64),
) -> Vec<Score> {
    let over = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (locks, kind, over) = (locks.clone(), kind.to_owned(), Arc::clone(&over));
            tokio::spawn(async move {
                let mut score = Score::default();
                while !over.load(Ordering::Relaxed) {
                    let asked = now();
                    let guard = request(&locks, &kind).acquire().await.expect("it waits for ever");
                    let granted = now();
                    section.run().await;
                    // If the machine pauses for half a second, the answer to the release comes too late. The key is
                    // free at the end of its lease anyway.
                    score.unanswered += u64::from(guard.release().await.is_err());
                    score.with_warm_up += 1;
                    if granted >= from && granted < until {
                        score.acquisitions += 1;
                        score.waits.push(granted - asked);
                    }
                    tokio::task::consume_budget().await;
                }
                score
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_nanos(until.saturating_sub(now()))).await;
    over.store(true, Ordering::Relaxed);
    let mut scores = Vec::new();
    for task in running {
        scores.push(task.await.expect("no panic"));
    }
    scores
}

/// A contender in another process.
pub(crate) struct Player {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Player {
    /// Starts the process, and returns when it is connected.
    pub(crate) fn start(url: &str, kind: &str, tasks: usize) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args([ROLE, url, kind, &tasks.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let input = child.stdin.take().expect("BUG: it was asked for");
        let output = BufReader::new(child.stdout.take().expect("BUG: it was asked for"));
        let mut player = Self { child, input, output };
        assert_eq!(player.line(), "ready");
        player
    }

    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").expect("it listens");
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it speaks");
        line.trim().to_owned()
    }

    /// Returns the numbers of the next line of the process.
    pub(crate) fn numbers(&mut self) -> Vec<u64> {
        self.line().split(' ').filter_map(|word| word.parse().ok()).collect()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the other process. It answers `contend <from> <until>` with four lines: the acquisitions of each task, the same
/// with the warm-up, the unanswered releases of each task, and all waits. It answers `hold <count> <us>` with a line of
/// times: granted, released, granted, ..
pub(crate) fn main(arguments: &[String]) {
    let [url, kind, tasks] = arguments else { panic!("{ROLE} needs a URL, a kind and a number of tasks") };
    let tasks = tasks.parse().expect("a number of tasks");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let locks = runtime.block_on(LockManager::connect(url)).expect("connects");
    println!("ready");
    for order in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = order.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        if words[0] == "contend" {
            let scores =
                runtime.block_on(contend(&locks, kind, tasks, Section::Empty, (number(1), number(2))));
            say(scores.iter().map(|score| score.acquisitions));
            say(scores.iter().map(|score| score.with_warm_up));
            say(scores.iter().map(|score| score.unanswered));
            say(scores.iter().flat_map(|score| score.waits.iter().copied()));
        } else {
            let hold = Duration::from_micros(number(2));
            let moments = runtime.block_on(turns(&locks, kind, number(1), hold));
            say(moments.into_iter());
        }
    }
    runtime.block_on(locks.shutdown(Duration::from_secs(1)));
}

/// Holds the key `count` times for `hold`. Returns the times: granted, released, granted, ..
pub(crate) async fn turns(locks: &LockManager, kind: &str, count: u64, hold: Duration) -> Vec<u64> {
    let mut moments = Vec::new();
    for _ in 0..count {
        let guard = request(locks, kind).acquire().await.expect("it waits for ever");
        moments.push(now());
        tokio::time::sleep(hold).await;
        moments.push(now());
        drop(guard.release().await);
    }
    moments
}

fn say(numbers: impl Iterator<Item = u64>) {
    let words: Vec<String> = numbers.map(|number| number.to_string()).collect();
    println!("{}", words.join(" "));
}
