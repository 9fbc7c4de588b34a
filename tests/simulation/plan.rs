//! The plan of a seed: the setting of a world, and its faults with their times.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

/// Everything that a seed determines in advance.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) asks: Asks,
    pub(crate) harm: Harm,
    pub(crate) servers: usize,
    pub(crate) clients: usize,
    /// The longest lease on which the clients agreed. It determines the quarantine.
    pub(crate) max_ttl: Duration,
    /// The delay of the slowest message.
    pub(crate) latency: Duration,
    /// How much the clock of each server gains, in us for each second.
    pub(crate) gains: Vec<i64>,
    /// The faults, sorted by time.
    pub(crate) faults: Vec<(Duration, Fault)>,
}

/// The requests of the clients of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asks {
    /// One exclusive key.
    Exclusive,
    /// One key, with readers and writers.
    Shared,
    /// Two keys, together or one of them.
    Several,
}

/// The kind of faults of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    /// Servers, clients, networks and clocks fail.
    Usual,
    /// The usual faults, and clients are paused for a while.
    Pauses,
    /// Servers evict locks. There are hardly any other faults.
    Evictions,
}

/// The kinds of worlds, by the last digit of the seed.
const SETTINGS: [(Asks, Harm); 10] = [
    (Asks::Exclusive, Harm::Usual),
    (Asks::Shared, Harm::Usual),
    (Asks::Several, Harm::Usual),
    (Asks::Exclusive, Harm::Pauses),
    (Asks::Exclusive, Harm::Evictions),
    (Asks::Shared, Harm::Usual),
    (Asks::Several, Harm::Usual),
    (Asks::Shared, Harm::Pauses),
    (Asks::Exclusive, Harm::Usual),
    (Asks::Several, Harm::Pauses),
];

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed. Its data are on disk, or lost.
    Crash {
        server: usize,
        forgets: bool,
    },
    Restart {
        server: usize,
    },
    /// Messages are lost: all of them, or those to the server, or those to the client.
    Cut {
        client: usize,
        server: usize,
        way: Way,
    },
    Heal {
        client: usize,
        server: usize,
        way: Way,
    },
    /// Messages are delayed, in both directions.
    Hold {
        client: usize,
        server: usize,
    },
    /// Delayed messages arrive.
    Release {
        client: usize,
        server: usize,
    },
    /// All messages of a client take this many ms.
    Slow {
        client: usize,
        latency: u64,
    },
    /// The clock is set by this many ms.
    Step {
        server: usize,
        by: i64,
    },
    Flush {
        server: usize,
    },
    FlushScripts {
        server: usize,
    },
    /// The server evicts a key.
    Evict {
        server: usize,
        key: &'static str,
    },
    /// The client is paused.
    Pause {
        client: usize,
    },
    GoOn {
        client: usize,
    },
    CrashClient {
        client: usize,
    },
    RestartClient {
        client: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Both,
    Requests,
    Replies,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The length of a run, and the end of its faults. In the remaining time all leftovers must disappear.
pub(crate) const LENGTH: Duration = Duration::from_secs(30);
pub(crate) const CALM: Duration = Duration::from_secs(25);

/// The longest time from the repair of a link until a client has replaced a connection that broke before.
const BROKEN: Duration = Duration::from_millis(1_500);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Plan {
    /// Returns whether a lease on this server may outlast the world although its owner has released it on a majority.
    /// This is so if the clock of the server was set back late, or if a link to it was repaired late: a client first has
    /// to find out that its connection is broken, and until then a release may be lost with it.
    pub(crate) fn prolongs_leases(&self, server: &str) -> bool {
        let is_it = |number: usize| server == format!("s{number}");
        let last = LENGTH.saturating_sub(self.max_ttl.mul_f64(1.02));
        self.faults.iter().any(|(at, fault)| match *fault {
            Fault::Step { server, by } if by < 0 && is_it(server) => *at + ms(by.unsigned_abs()) > last,
            Fault::Heal { server, .. } | Fault::Release { server, .. } if is_it(server) => {
                *at + BROKEN > last
            }
            _ => false,
        })
    }

    pub(crate) fn of(seed: u64) -> Self {
        let (asks, harm) = SETTINGS[(seed % 10) as usize];
        // All keys that clients can request are evicted in turn.
        let asks = match harm {
            Harm::Evictions => [Asks::Exclusive, Asks::Shared, Asks::Several][(seed / 10 % 3) as usize],
            Harm::Usual | Harm::Pauses => asks,
        };
        Self::with(seed, asks, harm)
    }

    /// Returns the world of a seed as it would be in another setting.
    pub(crate) fn with(seed: u64, asks: Asks, harm: Harm) -> Self {
        let mut rng = Rng::with_seed(seed);
        let servers = if rng.u8(..5) == 0 { 3 } else { 5 };
        let max_ttl = ms([1_000, 1_000, 2_000, 5_000][rng.usize(..4)]);
        // All clocks together gain or lose up to 0.9 %, of the 1 % that are subtracted from a lease. As with NTP, they
        // hardly differ from each other.
        let gain = [-9_000, 0, 9_000, 9_000][rng.usize(..4)];
        let gains = (0..servers).map(|_| gain + rng.i64(-300..=300)).collect();
        let latency = ms(rng.u64(4..=12));
        let mut plan =
            Self { seed, asks, harm, servers, clients: 3, max_ttl, latency, gains, faults: Vec::new() };
        plan.faults(&mut rng);
        plan
    }

    fn faults(&mut self, rng: &mut Rng) {
        let mut busy = Busy::new(self);
        let pause = rng.u64(200..=1_200);
        let mut at = ms(rng.u64(100..2_000));
        while at < CALM - ms(200) {
            self.fault(rng, at, &mut busy);
            at += ms(rng.u64(1..=2 * pause));
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    fn fault(&mut self, rng: &mut Rng, at: Duration, busy: &mut Busy) {
        let (server, client) = (rng.usize(..self.servers), rng.usize(..self.clients));
        match self.harm {
            Harm::Evictions => return self.evict(rng, at, server, busy),
            Harm::Pauses if rng.u8(..3) == 0 => return self.pause(rng, at, client, busy),
            Harm::Usual | Harm::Pauses => {}
        }
        match rng.u8(..100) {
            0..=29 => self.crash(rng, at, server, busy),
            30..=54 => {
                let until = at + ms(rng.u64(50..=2_500));
                let way = [Way::Both, Way::Requests, Way::Replies][rng.usize(..3)];
                self.cut(client, server, way, (at, until), busy);
            }
            55..=69 => {
                let until = at + ms(rng.u64(50..=2_500));
                let way = [Way::Both, Way::Requests, Way::Replies][rng.usize(..3)];
                let first = rng.usize(..self.servers);
                for number in 0..self.servers / 2 + 1 {
                    self.cut(client, (first + number) % self.servers, way, (at, until), busy);
                }
            }
            70..=84 => {
                let until = at + ms(rng.u64(50..=2_500));
                if busy.link(client, server, at, until) {
                    self.faults.push((at, Fault::Hold { client, server }));
                    self.faults.push((until.min(CALM), Fault::Release { client, server }));
                }
            }
            85..=88 => self.step(rng, at, server, busy),
            89..=92 => self.slow(rng, at, client, busy),
            93..=94 => self.faults.push((at, Fault::Flush { server })),
            95..=96 => self.faults.push((at, Fault::FlushScripts { server })),
            _ => self.crash_client(rng, at, client, busy),
        }
    }

    fn crash_client(&mut self, rng: &mut Rng, at: Duration, client: usize, busy: &mut Busy) {
        let until = at + ms(rng.u64(20..=1_000));
        if busy.client(client, at, until) {
            self.faults.push((at, Fault::CrashClient { client }));
            self.faults.push((until.min(CALM), Fault::RestartClient { client }));
        }
    }

    /// Pauses a client, usually for about a lease.
    fn pause(&mut self, rng: &mut Rng, at: Duration, client: usize, busy: &mut Busy) {
        let until = at + self.max_ttl.mul_f64(0.1 + 1.5 * rng.f64());
        if busy.client(client, at, until) {
            self.faults.push((at, Fault::Pause { client }));
            self.faults.push((until.min(CALM), Fault::GoOn { client }));
        }
    }

    /// Makes one server evict a lock or its own marker, or as many servers as are needed to leave no client a majority.
    /// One client is always connected to all of them.
    fn evict(&mut self, rng: &mut Rng, at: Duration, server: usize, busy: &mut Busy) {
        match rng.u8(..20) {
            0..=1 => self.faults.push((at, Fault::FlushScripts { server })),
            2..=4 => self.crash_client(rng, at, rng.clone().usize(1..self.clients), busy),
            _ if at < self.max_ttl => {}
            5 => self.faults.push((at, Fault::Evict { server, key: "lock:voter" })),
            with => {
                let (key, many) = (if with % 2 == 0 { "a" } else { "b" }, self.servers / 2 + 1);
                let many = if with < 8 { many } else { 1 };
                let key = if self.asks == Asks::Several { key } else { "a" };
                for number in 0..many {
                    let server = (server + number) % self.servers;
                    self.faults.push((at, Fault::Evict { server, key }));
                }
            }
        }
    }

    fn crash(&mut self, rng: &mut Rng, at: Duration, server: usize, busy: &mut Busy) {
        // The downtime is usually short. A server that is down for long only forgets leases that have ended anyway.
        let away = if rng.bool() { rng.u64(5..=100) } else { rng.u64(100..=1_500) };
        let until = at + ms(away);
        if busy.server(server, at, until) {
            self.faults.push((at, Fault::Crash { server, forgets: rng.u8(..4) > 0 }));
            self.faults.push((until.min(CALM), Fault::Restart { server }));
        }
    }

    fn cut(
        &mut self,
        client: usize,
        server: usize,
        way: Way,
        (at, until): (Duration, Duration),
        busy: &mut Busy,
    ) {
        if busy.link(client, server, at, until) {
            self.faults.push((at, Fault::Cut { client, server, way }));
            self.faults.push((until.min(CALM), Fault::Heal { client, server, way }));
        }
    }

    /// Slows a client, but only so much that some attempts are still in time.
    fn slow(&mut self, rng: &mut Rng, at: Duration, client: usize, busy: &mut Busy) {
        let until = at + ms(rng.u64(2_000..=8_000));
        if busy.pace(client, at, until) {
            let latency = self.max_ttl.mul_f64(0.01 + 0.03 * rng.f64()).as_millis() as u64;
            let usual = self.latency.as_millis() as u64 / 2;
            self.faults.push((at, Fault::Slow { client, latency }));
            self.faults.push((until.min(CALM), Fault::Slow { client, latency: usual }));
        }
    }

    /// Sets one clock at a time wrong, by less than the quarantine and for longer than the quarantine.
    ///
    /// If a clock is set back and then forward again, leases end early at the second change. A client that has not read
    /// the clock in between cannot detect this. This may be a client that was cut off, or a new one. The library does
    /// not promise this case, so such a clock is set only if every client has read it in between.
    fn step(&mut self, rng: &mut Rng, at: Duration, server: usize, busy: &mut Busy) {
        let most = i64::try_from(self.max_ttl.as_millis()).expect("short");
        let until = at + self.max_ttl.mul_f64(1.3);
        let again = until + self.max_ttl.mul_f64(1.3);
        if until < CALM && busy.clocks(at, again) {
            let by = rng.i64(most / 2..=most * 9 / 10);
            let by = if rng.u8(..4) == 0 && busy.all_look(server, at, until, again) { -by } else { by };
            self.faults.push((at, Fault::Step { server, by }));
            self.faults.push((until, Fault::Step { server, by: -by }));
        }
    }
}

/// The times until which faults are already planned.
struct Busy {
    links: Vec<Vec<Duration>>,
    servers: Vec<Duration>,
    clients: Vec<Duration>,
    paces: Vec<Duration>,
    clocks: Duration,
}

impl Busy {
    fn new(plan: &Plan) -> Self {
        Self {
            links: vec![vec![Duration::ZERO; plan.servers]; plan.clients],
            servers: vec![Duration::ZERO; plan.servers],
            clients: vec![Duration::ZERO; plan.clients],
            paces: vec![Duration::ZERO; plan.clients],
            clocks: Duration::ZERO,
        }
    }

    fn link(&mut self, client: usize, server: usize, at: Duration, until: Duration) -> bool {
        take(&mut self.links[client][server], at, until)
    }

    fn server(&mut self, server: usize, at: Duration, until: Duration) -> bool {
        take(&mut self.servers[server], at, until)
    }

    fn client(&mut self, client: usize, at: Duration, until: Duration) -> bool {
        take(&mut self.clients[client], at, until)
    }

    /// Makes every client live until `end`, and reach the server until `until`. Returns whether all of them can.
    fn all_look(&mut self, server: usize, at: Duration, until: Duration, end: Duration) -> bool {
        let all = self.links.iter().map(|links| links[server]).chain(self.clients.iter().copied());
        let free = all.max().is_none_or(|busy| busy < at);
        if free {
            self.links.iter_mut().for_each(|links| links[server] = until);
            self.clients.fill(end);
        }
        free
    }

    fn pace(&mut self, client: usize, at: Duration, until: Duration) -> bool {
        take(&mut self.paces[client], at, until)
    }

    fn clocks(&mut self, at: Duration, until: Duration) -> bool {
        take(&mut self.clocks, at, until)
    }
}

fn take(busy: &mut Duration, at: Duration, until: Duration) -> bool {
    let free = *busy < at;
    if free {
        *busy = until;
    }
    free
}

/// While a clock is behind for a while, no client is cut off from it, and no client is new.
#[test]
fn every_client_looks_at_a_clock_that_is_set_back() {
    let mut set_back = 0;
    for plan in (1..=3_000).map(Plan::of) {
        for (at, fault) in &plan.faults {
            let Fault::Step { server, by: ..0 } = *fault else { continue };
            let right_again = Fault::Step { server, by: -step_of(*fault) };
            let Some((until, _)) =
                plan.faults.iter().find(|(then, fault)| then > at && *fault == right_again)
            else {
                continue;
            };
            set_back += 1;
            let between = plan.faults.iter().filter(|(then, _)| (*at..*until).contains(then));
            let blinds = |fault: &Fault| match *fault {
                Fault::Cut { server: of, .. } | Fault::Hold { server: of, .. } => of == server,
                Fault::CrashClient { .. } | Fault::Pause { .. } => true,
                _ => false,
            };
            let blind = between.filter(|(_, fault)| blinds(fault)).count();
            assert_eq!(blind, 0, "seed {} at {at:?}", plan.seed);
        }
    }
    assert!(set_back > 50, "{set_back} clocks: this shows little");
}

#[cfg(test)]
fn step_of(fault: Fault) -> i64 {
    if let Fault::Step { by, .. } = fault { by } else { 0 }
}
