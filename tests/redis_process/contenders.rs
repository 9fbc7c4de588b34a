//! Several processes that compete for keys, and the history of their holds.

use std::time::Duration;

use lock_core::backend::{FencingToken, Mode};
use lock_core::testkit::history::{Hold, check};
use lock_tests::{RedisServer, Worker, monotonic, wait_until};

use crate::WORKER;

/// The settings of every contender.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The kinds and keys, for example `["lock:k", "fair:k"]`.
    pub(crate) kinds: &'static [&'static str],
    pub(crate) tasks: u32,
    pub(crate) ttl: Duration,
    /// The longest usual hold.
    pub(crate) hold: Duration,
    /// Further flags: `--unruly`, `--careless`.
    pub(crate) flags: &'static [&'static str],
}

/// A server of any store, the processes that compete on it, and the output of the processes that have ended.
pub(crate) struct Contest<S = RedisServer> {
    pub(crate) server: S,
    url: String,
    resource: RedisServer,
    terms: Terms,
    seed: u64,
    /// The seed of the next process.
    next_seed: u64,
    workers: Vec<Worker>,
    grants: Vec<Grant>,
    errors: Vec<String>,
    /// The times at which the server lost all data.
    floods: Vec<(Duration, Duration)>,
}

/// A hold as a worker printed it.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// The number of the process. Processes that were started as its replacement have the same number.
    pub(crate) process: usize,
    number: u64,
    kind: String,
    pub(crate) keys: Vec<String>,
    pub(crate) asked: Duration,
    pub(crate) acquired: Duration,
    deadline: Duration,
    token: Option<u64>,
    /// The end of the hold, or `None` if the worker did not print it.
    ended: Option<Duration>,
    /// Whether the fenced resource refused a write of this holder.
    refused: bool,
}

impl Contest {
    /// Starts `processes` processes on a Redis server. `seed` determines their actions.
    pub(crate) async fn start(processes: usize, terms: Terms, seed: u64) -> Self {
        let server = RedisServer::start();
        let url = server.url();
        Self::on(server, url, processes, terms, seed).await
    }

    /// Makes the server lose all data.
    pub(crate) fn flush(&mut self) {
        let before = monotonic();
        self.server.command(&["FLUSHALL"]);
        self.floods.push((before, monotonic()));
    }
}

impl<S> Contest<S> {
    /// Starts `processes` processes on `server`. `seed` determines their actions.
    pub(crate) async fn on(server: S, url: String, processes: usize, terms: Terms, seed: u64) -> Self {
        let resource = RedisServer::start();
        let workers = Vec::new();
        let (grants, errors, floods) = (Vec::new(), Vec::new(), Vec::new());
        let next_seed = seed;
        let mut contest =
            Self { server, url, resource, terms, seed, next_seed, workers, grants, errors, floods };
        for _ in 0..processes {
            let worker = contest.contender();
            contest.workers.push(worker);
        }
        for worker in &mut contest.workers {
            worker.expect("READY").await;
        }
        contest
    }

    pub(crate) fn processes(&self) -> usize {
        self.workers.len()
    }

    fn contender(&mut self) -> Worker {
        self.next_seed = self.next_seed.wrapping_add(1);
        let Terms { kinds, tasks, ttl, hold, flags } = &self.terms;
        let own = [
            ("--url", self.url.clone()),
            ("--resource", self.resource.url()),
            ("--kinds", kinds.join(",")),
            ("--tasks", tasks.to_string()),
            ("--ttl", ttl.as_millis().to_string()),
            ("--hold", hold.as_micros().to_string()),
            ("--seed", self.next_seed.to_string()),
        ];
        let mut arguments = vec!["contend"];
        arguments.extend(own.iter().flat_map(|(name, value)| [*name, value.as_str()]));
        arguments.extend(*flags);
        Worker::start(WORKER, &arguments)
    }

    /// Kills a process, and starts another in its place.
    pub(crate) async fn kill(&mut self, process: usize) {
        let next = self.contender();
        let killed = std::mem::replace(&mut self.workers[process], next);
        // The process held its locks until this time.
        let alive = monotonic();
        let lines = killed.kill9().await;
        self.note(process, &lines, Some(alive));
        self.workers[process].expect("READY").await;
    }

    pub(crate) fn stop(&mut self, process: usize) {
        self.workers[process].process().stop();
    }

    pub(crate) fn cont(&mut self, process: usize) {
        self.workers[process].process().cont();
    }

    /// Returns about how many grants the processes have printed so far.
    pub(crate) fn grants_so_far(&self) -> usize {
        // A worker prints two lines for each grant.
        self.grants.len() + self.workers.iter().map(Worker::unread).sum::<usize>() / 2
    }

    /// Waits until every process has printed more than `grants` further grants.
    pub(crate) async fn all_progress(&self, grants: usize, within: Duration) {
        let before: Vec<_> = self.workers.iter().map(Worker::unread).collect();
        let more = || self.workers.iter().zip(&before).map(|(worker, before)| worker.unread() - before);
        let bound = monotonic() + within;
        loop {
            if more().all(|lines| lines >= 2 * grants) {
                return;
            }
            let seed = self.seed;
            assert!(
                monotonic() < bound,
                "not all get on, lines since: {:?}, seed {seed}",
                more().collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends all processes regularly. Returns their holds, and the server.
    pub(crate) async fn end(mut self) -> Outcome<S> {
        for (process, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let lines = worker.finish().await;
            self.note(process, &lines, None);
        }
        Outcome {
            server: self.server,
            ttl: self.terms.ttl,
            grants: self.grants,
            errors: self.errors,
            floods: self.floods,
        }
    }

    /// Reads the output of a process. A killed process held its locks until `alive`, unless it had released them.
    fn note(&mut self, process: usize, lines: &[String], alive: Option<Duration>) {
        let first = self.grants.len();
        for (at, line) in lines.iter().enumerate() {
            let known = self.read(process, first, line);
            // The last line of a killed process may be incomplete.
            assert!(known || (alive.is_some() && at + 1 == lines.len()), "the worker printed: {line}");
        }
        for grant in &mut self.grants[first..] {
            if let (None, Some(alive)) = (grant.ended, alive) {
                grant.ended = Some(alive.min(grant.deadline).max(grant.acquired));
            }
        }
    }

    fn read(&mut self, process: usize, first: usize, line: &str) -> bool {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["READY"] => true,
            ["E", ..] => {
                self.errors.push(line.to_owned());
                true
            }
            ["G", number, spec, asked, acquired, deadline, token] => {
                self.granted(process, number, spec, [asked, acquired, deadline], token).is_some()
            }
            ["R", number, ended, said] => {
                let (Ok(number), Some(ended)) = (number.parse(), time(ended)) else { return false };
                let open = self.grants[first..].iter_mut().rfind(|grant| grant.number == number);
                let Some(grant) = open else { return false };
                (grant.ended, grant.refused) = (Some(ended), said == "refused");
                true
            }
            _ => false,
        }
    }

    fn granted(
        &mut self,
        process: usize,
        number: &str,
        spec: &str,
        times: [&str; 3],
        token: &str,
    ) -> Option<()> {
        let (kind, keys) = spec.split_once(':')?;
        let [asked, acquired, deadline] = times.map(time);
        self.grants.push(Grant {
            process,
            number: number.parse().ok()?,
            kind: kind.to_owned(),
            keys: keys.split('+').map(str::to_owned).collect(),
            asked: asked?,
            acquired: acquired?,
            deadline: deadline?,
            token: if token == "-" { None } else { Some(token.parse().ok()?) },
            ended: None,
            refused: false,
        });
        Some(())
    }
}

fn time(nanos: &str) -> Option<Duration> {
    nanos.parse().ok().map(Duration::from_nanos)
}

/// The result of a contest that has ended.
pub(crate) struct Outcome<S = RedisServer> {
    pub(crate) server: S,
    ttl: Duration,
    pub(crate) grants: Vec<Grant>,
    errors: Vec<String>,
    floods: Vec<(Duration, Duration)>,
}

impl<S> Outcome<S> {
    /// Checks that no two holds overlapped, that no token was out of order, and that the fenced resource refused no
    /// holder.
    ///
    /// When the server loses all data, the holders at that time are not notified yet. Within their process, they may
    /// also hand their grants to other tasks before the leases end. These holds are left out. The holds before and
    /// after are checked against each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        let certain = || self.grants.iter().filter_map(|grant| self.certain(grant));
        if let Some(grant) = certain().find(|grant| grant.refused) {
            return Err(format!("the resource refused one that held: {grant:?}"));
        }
        let holds: Vec<Hold> = certain().flat_map(|grant| grant.holds()).collect();
        check(&holds).map_err(|violation| violation.to_string())?;
        match &self.errors[..] {
            [] => Ok(()),
            errors => Err(format!("{} errors, the first: {}", errors.len(), errors[0])),
        }
    }

    /// Returns the part of `grant` for which exclusion is promised.
    fn certain(&self, grant: &Grant) -> Option<Grant> {
        let mut grant = grant.clone();
        for (before, after) in &self.floods {
            if (*before..=*after + self.ttl).contains(&grant.acquired) {
                return None;
            }
            if grant.acquired < *before && grant.ended.is_some_and(|ended| ended > *before) {
                grant.ended = Some(*before);
                grant.refused = false;
            }
        }
        Some(grant)
    }

    /// Returns how many grants each process had.
    pub(crate) fn by_process(&self, processes: usize) -> Vec<usize> {
        (0..processes).map(|p| self.grants.iter().filter(|grant| grant.process == p).count()).collect()
    }

    /// Returns the same counts for the time in which all processes competed. It begins when the last process had its
    /// first grant, and ends when the first process had its last.
    pub(crate) fn while_all_asked(&self, processes: usize) -> Vec<usize> {
        let times = |process| {
            self.grants.iter().filter(move |grant| grant.process == process).map(|grant| grant.acquired)
        };
        let from = (0..processes).filter_map(|process| times(process).min()).max().unwrap_or_default();
        let until = (0..processes).filter_map(|process| times(process).max()).min().unwrap_or_default();
        (0..processes).map(|process| times(process).filter(|at| (from..until).contains(at)).count()).collect()
    }

    pub(crate) fn of_kind(&self, kind: &str) -> usize {
        self.grants.iter().filter(|grant| grant.kind == kind).count()
    }
}

impl Outcome {
    /// Checks that every remaining key has an expiry, and that only the last fencing tokens remain soon.
    pub(crate) async fn leaves_nothing(&self, within: Duration) {
        for key in self.server.keys() {
            let left: i64 = self.server.get(&["PTTL", &key]);
            // The key may have expired meanwhile.
            assert!(left != -1, "{key} has no expiry");
        }
        wait_until("only last fencing tokens are left", within, async || {
            self.server.keys().iter().all(|key| key.ends_with(":f"))
        })
        .await;
    }
}

impl Grant {
    fn mode(&self) -> Mode {
        match self.kind.strip_prefix("semaphore").map(str::parse) {
            Some(Ok(of)) => Mode::Permit { of },
            _ if self.kind == "read" => Mode::Shared,
            _ => Mode::Exclusive,
        }
    }

    fn holds(self) -> impl Iterator<Item = Hold> {
        let (mode, fence) = (self.mode(), self.token.map(FencingToken::new));
        let (asked, acquired) = (self.asked, self.acquired);
        let ended = self.ended.unwrap_or(acquired);
        let worker = self.process;
        self.keys.into_iter().map(move |key| Hold { worker, key, mode, asked, acquired, ended, fence })
    }
}
