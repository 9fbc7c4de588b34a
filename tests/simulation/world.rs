//! One world: servers, clients, the network between them, and the faults of its plan.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lock_core::testkit::simulation::{self, Stream};
use turmoil::Sim;

use crate::audit::Audit;
use crate::check::{self, Verdict};
use crate::client::{Client, Lapse};
use crate::journal::{self, Journal};
use crate::node;
use crate::plan::{Fault, Harm, LENGTH, Plan, Way};
use crate::process::{self, Port, Process};
use crate::resource::Resource;
use crate::server::{Patch, Server, ServerClock};
use crate::store;
use crate::wire::{self, Wire};

/// The length of a step of the world. Messages are delivered between two steps.
const TICK: Duration = Duration::from_millis(4);

/// The planted flaws.
#[derive(Clone, Default)]
pub(crate) struct Flaw {
    /// A flaw in the scripts.
    pub(crate) patch: Option<Patch>,
    /// Whether the patch has changed a script yet.
    pub(crate) planted: Option<Rc<Cell<bool>>>,
    pub(crate) store: store::Kind,
    pub(crate) lapse: Lapse,
    /// Whether the resource ignores fencing tokens.
    pub(crate) resource_takes_all: bool,
    /// Whether servers hide evictions from their clients.
    pub(crate) silent_evictions: bool,
    /// Whether the clock of a client stops when the client is paused.
    pub(crate) clock_stands_still: bool,
}

/// The outcome of one world.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) verdict: Verdict,
    /// The number of occurrences of each event.
    pub(crate) counts: BTreeMap<&'static str, usize>,
    /// A hash of all events. The same seed gives the same hash.
    pub(crate) hash: u64,
    /// The text of all events, if it was kept.
    pub(crate) text: String,
}

struct World<'a> {
    sim: Sim<'a>,
    plan: Rc<Plan>,
    servers: Vec<Rc<Server>>,
    /// The clients, if the world can pause them.
    processes: Vec<Process>,
    journal: Journal,
    audit: Audit,
}

/// Runs the world of `plan` to its end.
pub(crate) fn run(plan: Plan, flaw: &Flaw, keeps_text: bool) -> Outcome {
    let seed = plan.seed;
    fastrand::seed(seed);
    let journal = Journal::new(keeps_text);
    let inside = simulation::enter(simulation::World {
        now: match flaw.clock_stands_still {
            true => Box::new(|| journal::now() - process::stood()),
            false => Box::new(journal::now),
        },
        dial: Box::new(|host, port| match process::dial(host, port) {
            Some(dialling) => Box::pin(async { Ok(Box::new(dialling.await?) as Box<dyn Stream>) }),
            None => {
                let host = host.to_owned();
                Box::pin(async move { Ok(Box::new(Wire::connect(host, port).await?) as Box<dyn Stream>) })
            }
        }),
    });
    let plan = Rc::new(plan);
    let mut world = World::new(Rc::clone(&plan), flaw, journal.clone());
    let left = world.run();
    // If a client still holds a lock, its hold ends at this time.
    journal::stop(Some(LENGTH));
    drop(world);
    drop(inside);
    wire::bury();
    journal::stop(None);
    let verdict = check::judge(&journal, &left, &plan);
    Outcome { seed, verdict, counts: journal.counts(), hash: journal.hash(), text: journal.text() }
}

impl World<'_> {
    fn new(plan: Rc<Plan>, flaw: &Flaw, journal: Journal) -> Self {
        let mut sim = turmoil::Builder::new()
            .rng_seed(plan.seed)
            .simulation_duration(LENGTH * 2)
            .tick_duration(TICK)
            .min_message_latency(TICK)
            .max_message_latency(plan.latency)
            .enable_random_order()
            .build();
        let audit = Audit::new(journal.clone(), flaw.store.is_gated(), plan.max_ttl);
        let mut servers = Vec::new();
        for (number, gains) in plan.gains.iter().enumerate() {
            let (name, clock) = (format!("s{number}"), ServerClock::new(*gains, journal::now));
            let server = Rc::new(Server::new(name.clone(), clock, flaw, audit.clone()));
            servers.push(Rc::clone(&server));
            sim.host(name, move || node::live(Rc::clone(&server)));
        }
        let resource = Resource::new(journal.clone(), flaw.resource_takes_all);
        let mut processes = Vec::new();
        for number in 0..plan.clients {
            let client = Client {
                number,
                name: format!("c{number}"),
                plan: Rc::clone(&plan),
                store: flaw.store,
                lapse: flaw.lapse,
                journal: journal.clone(),
                resource: resource.clone(),
                lives: Rc::default(),
                stops: Rc::default(),
            };
            if plan.harm == Harm::Pauses {
                let (port, stops, name) = (Port::default(), Rc::clone(&client.stops), client.name.clone());
                processes.push(Process::new(port.clone(), stops, move || Box::pin(client.clone().live())));
                sim.host(name, move || process::carry(port.clone()));
            } else {
                sim.host(client.name.clone(), move || client.clone().live());
            }
        }
        processes.iter_mut().for_each(|process| process.start(Duration::ZERO));
        Self { sim, plan, servers, processes, journal, audit }
    }

    /// Runs the world to its end. Returns the remaining data of the servers.
    fn run(&mut self) -> BTreeMap<String, crate::audit::Look> {
        let plan = Rc::clone(&self.plan);
        let mut faults = plan.faults.iter().peekable();
        while self.sim.elapsed() < LENGTH {
            while let Some((at, fault)) = faults.next_if(|(at, _)| *at <= self.sim.elapsed()) {
                self.journal.note_at(*at, "--", format_args!("{fault}"));
                self.strike(*fault);
            }
            self.sim.step().unwrap_or_else(|error| panic!("seed {}: {error}", self.plan.seed));
            self.processes.iter_mut().for_each(|process| process.tick(TICK));
        }
        journal::stop(Some(LENGTH));
        self.audit.end();
        let left = self.servers.iter().map(|server| (server.name.clone(), server.look())).collect();
        journal::stop(None);
        left
    }

    fn strike(&mut self, fault: Fault) {
        let (server, client) = (|number: usize| format!("s{number}"), |number: usize| format!("c{number}"));
        let (at, sim) = (self.sim.elapsed(), &mut self.sim);
        // All holds that a crash ends have this end time.
        journal::stop(Some(at));
        match fault {
            Fault::Crash { server: number, forgets } => {
                self.servers[number].forgets(forgets);
                sim.crash(server(number));
            }
            Fault::Restart { server: number } => sim.bounce(server(number)),
            Fault::Cut { client: from, server: to, way } => match way {
                Way::Both => sim.partition(client(from), server(to)),
                Way::Requests => sim.partition_oneway(client(from), server(to)),
                Way::Replies => sim.partition_oneway(server(to), client(from)),
            },
            Fault::Heal { client: from, server: to, way } => match way {
                Way::Both => sim.repair(client(from), server(to)),
                Way::Requests => sim.repair_oneway(client(from), server(to)),
                Way::Replies => sim.repair_oneway(server(to), client(from)),
            },
            Fault::Hold { client: from, server: to } => sim.hold(client(from), server(to)),
            Fault::Release { client: from, server: to } => sim.release(client(from), server(to)),
            Fault::Slow { client: from, latency } => {
                for to in &self.servers {
                    sim.set_link_latency(client(from), to.name.as_str(), Duration::from_millis(latency));
                }
            }
            Fault::Step { server: number, by } => self.servers[number].clock.step(by * 1_000),
            Fault::Flush { server: number } => self.servers[number].flush(),
            Fault::FlushScripts { server: number } => self.servers[number].flush_scripts(),
            Fault::Evict { server: number, key } => self.servers[number].evict(key),
            Fault::Pause { client } => self.processes[client].stop(at),
            // This fault is executed below, after the stop between two steps, because it makes the client act.
            Fault::GoOn { .. } => {}
            Fault::CrashClient { client: number } => {
                self.journal.client_died();
                if let Some(process) = self.processes.get_mut(number) {
                    process.crash();
                }
                sim.crash(client(number));
            }
            Fault::RestartClient { client: number } => {
                sim.bounce(client(number));
                if let Some(process) = self.processes.get_mut(number) {
                    process.start(at);
                }
            }
        }
        wire::bury();
        // Dead tasks may have drawn random numbers in any order, so the random state is set again.
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        fastrand::seed(self.plan.seed.wrapping_mul(1_000_003).wrapping_add(millis));
        journal::stop(None);
        if let Fault::GoOn { client } = fault {
            self.processes[client].go_on(at);
        }
    }
}
