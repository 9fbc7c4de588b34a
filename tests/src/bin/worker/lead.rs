//! A candidate for the lead, which writes to a fenced resource while it leads.
//!
//! The lines have times of `CLOCK_MONOTONIC` in ns:
//!
//! - `READY`
//! - `L <token> <asked> <elected>`: the candidate leads
//! - `W <token> <accepted | refused>`: the first write of a term, and each write that was refused during the term
//! - `X <token> <ended>`: the body was dropped, and the lead was last certain at this time. Absent if the worker was
//!   killed before
//! - `DONE`: the run has ended, because the candidate resigned
//!
//! After a line `resign` the worker resigns, and then is a candidate again. It ends when its input ends. With `--alone`
//! each process has its own store, so that every process leads.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lock_core::{LeaderElection, LockHandle, LockManager};
use lock_tests::{Fenced, monotonic};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::Options;

/// The pause between two writes.
const PAUSE: Duration = Duration::from_millis(3);

pub(crate) async fn lead(options: &Options) {
    let locks = if options.has("--alone") { LockManager::in_memory() } else { options.manager().await };
    let ttl = Duration::from_millis(options.number("--ttl"));
    let election = locks.leader(options.text("--key")).ttl(ttl).label(options.text("--name").to_owned());
    let resource = Fenced::connect(options.text("--resource")).await;
    let mut lines = lines();
    println!("READY");
    loop {
        // The run is not spawned, because the bodies share data that are not `Send`.
        let run = run(&election, &resource);
        let told = async {
            let line = lines.recv().await;
            election.resign().await;
            line
        };
        let (ended, line) = tokio::join!(run, told);
        assert!(ended.expect("the store takes locks").is_none(), "a body never ends");
        println!("DONE");
        if line.is_none() {
            break;
        }
    }
    let report = locks.shutdown(Duration::from_secs(2)).await;
    assert!(report.revoked.is_empty(), "{report:?}");
}

/// Leads until the candidate resigns.
async fn run(election: &LeaderElection, resource: &Fenced) -> lock_core::Result<Option<()>> {
    let asked = Rc::new(Cell::new(monotonic()));
    let body = |lease: LockHandle| {
        let (asked, resource) = (Rc::clone(&asked), resource.clone());
        async move {
            let token = lease.fencing_token().await.expect("it came with the grant").get();
            let elected = monotonic();
            println!("L {token} {} {}", asked.get().as_nanos(), elected.as_nanos());
            let term = Held { token, lease, certain: Cell::new(elected), asked };
            term.write_for_ever(&resource).await;
        }
    };
    election.run(body).await
}

/// A term of the leader, which is dropped with the body.
struct Held {
    token: u64,
    lease: LockHandle,
    /// The last time at which the lead was certain.
    certain: Cell<Duration>,
    asked: Rc<Cell<Duration>>,
}

impl Held {
    async fn write_for_ever(&self, resource: &Fenced) {
        let mut first = true;
        loop {
            let accepted = resource.write(self.lease.key(), self.token).await;
            let now = monotonic();
            if self.lease.is_held() {
                self.certain.set(now);
                if first || !accepted {
                    println!("W {} {}", self.token, if accepted { "accepted" } else { "refused" });
                    first = false;
                }
            }
            sleep(PAUSE).await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let now = monotonic();
        // The check is after the time. If the lead is no longer certain, the term ended when the lead was last certain.
        let ended = if self.lease.is_held() { now } else { self.certain.get() };
        println!("X {} {}", self.token, ended.as_nanos());
        self.asked.set(now);
    }
}

/// Reads the input on a separate thread.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
