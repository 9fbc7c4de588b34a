//! Several processes are candidates for one lead, while their leaders are killed. The tests of several stores include
//! this module.
#![allow(dead_code, reason = "each store uses its part")]

use std::time::Duration;

use lock_core::backend::{FencingToken, Mode};
use lock_core::testkit::history::{Hold, check};
use lock_tests::{Bound, PATIENCE, RedisServer, Worker, monotonic};
use tokio::time::sleep;

/// The program that the tests control. Its documentation describes its modes.
const WORKER: &str = env!("CARGO_BIN_EXE_worker");
const KEY: &str = "scheduler";

/// The processes, and their output.
pub(crate) struct Party {
    url: String,
    ttl: Duration,
    flags: &'static [&'static str],
    resource: RedisServer,
    workers: Vec<Worker>,
    terms: Vec<Term>,
    refused: Vec<String>,
}

/// A term of a leader.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    worker: usize,
    pub(crate) token: u64,
    asked: Duration,
    pub(crate) elected: Duration,
    ended: Option<Duration>,
    wrote: bool,
}

impl Party {
    /// Starts `processes` candidates on the store at `url`.
    pub(crate) async fn start(
        url: &str,
        ttl: Duration,
        processes: usize,
        flags: &'static [&'static str],
    ) -> Self {
        let (resource, workers) = (RedisServer::start(), Vec::new());
        let (url, terms, refused) = (url.to_owned(), Vec::new(), Vec::new());
        let mut party = Self { url, ttl, flags, resource, workers, terms, refused };
        for number in 0..processes {
            let worker = party.candidate(number);
            party.workers.push(worker);
        }
        for worker in &mut party.workers {
            worker.expect("READY").await;
        }
        party
    }

    fn candidate(&self, number: usize) -> Worker {
        let (ttl, name, resource) =
            (self.ttl.as_millis().to_string(), format!("n{number}"), self.resource.url());
        let arguments =
            ["lead", "--url", &self.url, "--key", KEY, "--ttl", &ttl, "--name", &name, "--resource"];
        Worker::start(WORKER, &[&arguments[..], &[&resource], self.flags].concat())
    }

    /// Waits until a process leads with a token above `token`, and has written.
    pub(crate) async fn leader_after(&mut self, token: u64) -> Term {
        let bound = Bound::new(PATIENCE);
        loop {
            self.read_all().await;
            let next = self.terms.iter().find(|term| term.token > token && term.wrote);
            if let Some(term) = next {
                return term.clone();
            }
            bound.check("a leader");
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until every process leads and has written. The order of their tokens does not matter.
    pub(crate) async fn all_lead(&mut self) {
        let bound = Bound::new(PATIENCE);
        let leads = |terms: &[Term], number| terms.iter().any(|term| term.worker == number && term.wrote);
        while !(0..self.workers.len()).all(|number| leads(&self.terms, number)) {
            bound.check("every process leads");
            self.read_all().await;
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Kills the leader, and starts another candidate in its place. Returns the time until another process led.
    pub(crate) async fn kill_leader(&mut self, leader: &Term) -> (Term, Duration) {
        let number = leader.worker;
        let next = self.candidate(number);
        let killed = std::mem::replace(&mut self.workers[number], next);
        // The process led at least until this time.
        let alive = monotonic();
        let lines = killed.kill9().await;
        let dead = monotonic();
        for (at, line) in lines.iter().enumerate() {
            // The last line may be incomplete.
            assert!(self.read(number, line) || at + 1 == lines.len(), "the worker printed: {line}");
        }
        for term in self.terms.iter_mut().filter(|term| term.worker == number && term.ended.is_none()) {
            term.ended = Some(alive.max(term.elected));
        }
        let next = self.leader_after(leader.token).await;
        let took = next.elected.saturating_sub(dead);
        (next, took)
    }

    /// Stops the leader with SIGSTOP until another process leads, and then for one more ttl. Returns the term of the
    /// other.
    pub(crate) async fn pause_leader(&mut self, leader: &Term) -> Term {
        let number = leader.worker;
        self.workers[number].process().stop();
        let next = self.leader_after(leader.token).await;
        sleep(self.ttl).await;
        self.workers[number].process().cont();
        let bound = Bound::new(PATIENCE);
        while self.terms.iter().any(|term| term.token == leader.token && term.ended.is_none()) {
            bound.check("the stopped leader learns of its loss");
            self.read_all().await;
            sleep(Duration::from_millis(2)).await;
        }
        next
    }

    /// Makes the leader resign. Returns the time until another process led.
    pub(crate) async fn resign_leader(&mut self, leader: &Term) -> (Term, Duration) {
        let told = monotonic();
        self.workers[leader.worker].tell("resign");
        let next = self.leader_after(leader.token).await;
        let took = next.elected.saturating_sub(told);
        (next, took)
    }

    /// Ends all processes regularly, and returns their terms.
    pub(crate) async fn end(mut self) -> Outcome {
        for (number, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            for line in worker.finish().await {
                assert!(self.read(number, &line), "the worker printed: {line}");
            }
        }
        Outcome { terms: self.terms, refused: self.refused }
    }

    async fn read_all(&mut self) {
        for number in 0..self.workers.len() {
            while self.workers[number].unread() > 0 {
                let line = self.workers[number].line().await.expect("it lives");
                assert!(self.read(number, &line), "the worker printed: {line}");
            }
        }
    }

    fn read(&mut self, worker: usize, line: &str) -> bool {
        let words: Vec<_> = line.split(' ').collect();
        let term = |terms: &mut Vec<Term>, token: &str| {
            let token: u64 = token.parse().ok()?;
            terms.iter_mut().position(|term| term.token == token && term.worker == worker)
        };
        match words[..] {
            ["READY"] | ["DONE"] => true,
            ["L", token, asked, elected] => {
                let (Ok(token), Some(asked), Some(elected)) = (token.parse(), time(asked), time(elected))
                else {
                    return false;
                };
                self.terms.push(Term { worker, token, asked, elected, ended: None, wrote: false });
                true
            }
            ["W", token, answer] => {
                let Some(at) = term(&mut self.terms, token) else { return false };
                self.terms[at].wrote = true;
                if answer == "refused" {
                    self.refused.push(line.to_owned());
                }
                true
            }
            ["X", token, ended] => {
                let (Some(at), Some(ended)) = (term(&mut self.terms, token), time(ended)) else {
                    return false;
                };
                self.terms[at].ended = Some(ended);
                true
            }
            _ => false,
        }
    }
}

fn time(nanos: &str) -> Option<Duration> {
    nanos.parse().ok().map(Duration::from_nanos)
}

/// The terms of all processes of a party.
pub(crate) struct Outcome {
    pub(crate) terms: Vec<Term>,
    refused: Vec<String>,
}

impl Outcome {
    /// Checks that no two processes led at once, that every leader had a larger token than earlier leaders, and that
    /// the resource refused no leader.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(line) = self.refused.first() {
            return Err(format!("the resource refused one that led: {line}"));
        }
        let holds: Vec<Hold> = self.terms.iter().map(Term::hold).collect();
        check(&holds).map_err(|violation| violation.to_string())
    }

    /// Returns how many processes have led.
    pub(crate) fn leaders(&self) -> usize {
        let mut workers: Vec<_> = self.terms.iter().map(|term| term.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        workers.len()
    }
}

impl Term {
    fn hold(&self) -> Hold {
        Hold {
            worker: self.worker,
            key: KEY.to_owned(),
            mode: Mode::Exclusive,
            asked: self.asked,
            acquired: self.elected,
            ended: self.ended.unwrap_or(self.elected),
            fence: Some(FencingToken::new(self.token)),
        }
    }
}

/// Runs `processes` candidates, kills their leaders `kills` times, and makes one resign. Returns how long each kill
/// left the others without a leader.
pub(crate) async fn survive(url: &str, ttl: Duration, processes: usize, kills: usize) -> Vec<Duration> {
    let mut party = Party::start(url, ttl, processes, &[]).await;
    let mut leader = party.leader_after(0).await;
    let mut took = Vec::new();
    for _ in 0..kills {
        // The kill happens at a random time of the lease.
        sleep(ttl.mul_f64(0.5 * fastrand::f64())).await;
        let (next, without) = party.kill_leader(&leader).await;
        took.push(without);
        leader = next;
    }
    let (_, handed_over) = party.resign_leader(&leader).await;
    assert!(handed_over < ttl / 2 + Duration::from_millis(500), "a leader that resigns: {handed_over:?}");
    let outcome = party.end().await;
    outcome.check().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(outcome.leaders() > 1 && outcome.terms.len() > kills, "{:?}", outcome.terms);
    took
}
