//! One world: servers, clients, the network between them, and what its plan does to them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lock_core::testkit::simulation::{self, Stream};
use turmoil::Sim;

use crate::audit::Audit;
use crate::check::{self, Verdict};
use crate::client::Client;
use crate::journal::{self, Journal};
use crate::node;
use crate::plan::{Fault, LENGTH, Plan, Way};
use crate::resource::Resource;
use crate::server::{Patch, Server, ServerClock};
use crate::store;
use crate::wire::{self, Wire};

/// How far the world goes in one step; messages are delivered between two of them.
const TICK: Duration = Duration::from_millis(4);

/// What is not as it should be.
#[derive(Clone, Default)]
pub(crate) struct Flaw {
    /// In the scripts.
    pub(crate) patch: Option<Patch>,
    pub(crate) store: store::Kind,
}

/// What came of one world.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) verdict: Verdict,
    pub(crate) grants: usize,
    /// Of all that happened: the same for the same seed.
    pub(crate) hash: u64,
    /// All that happened, if it was to be kept.
    pub(crate) text: String,
}

struct World<'a> {
    sim: Sim<'a>,
    plan: Rc<Plan>,
    servers: Vec<Rc<Server>>,
    journal: Journal,
}

/// Runs the world of `plan` to its end.
pub(crate) fn run(plan: Plan, flaw: &Flaw, keeps_text: bool) -> Outcome {
    let seed = plan.seed;
    fastrand::seed(seed);
    let journal = Journal::new(keeps_text);
    let inside = simulation::enter(simulation::World {
        now: Box::new(journal::now),
        dial: Box::new(|host, port| {
            let host = host.to_owned();
            Box::pin(async move { Ok(Box::new(Wire::connect(host, port).await?) as Box<dyn Stream>) })
        }),
    });
    let plan = Rc::new(plan);
    let mut world = World::new(Rc::clone(&plan), flaw, journal.clone());
    let left = world.run();
    // Whoever holds at the end does so until then.
    journal::stop(Some(LENGTH));
    drop(world);
    drop(inside);
    wire::bury();
    journal::stop(None);
    let verdict = check::judge(&journal, &left, &plan);
    Outcome { seed, verdict, grants: journal.grants(), hash: journal.hash(), text: journal.text() }
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
        let audit = Audit::new(journal.clone(), flaw.store.is_gated());
        let mut servers = Vec::new();
        for (number, gains) in plan.gains.iter().enumerate() {
            let (name, clock) = (format!("s{number}"), ServerClock::new(*gains, journal::now));
            let server = Rc::new(Server::new(name.clone(), clock, flaw.patch.clone(), audit.clone()));
            servers.push(Rc::clone(&server));
            sim.host(name, move || node::live(Rc::clone(&server)));
        }
        let resource = Resource::new(journal.clone());
        for number in 0..plan.clients {
            let client = Client {
                number,
                name: format!("c{number}"),
                plan: Rc::clone(&plan),
                store: flaw.store,
                journal: journal.clone(),
                resource: resource.clone(),
                lives: Rc::new(Cell::new(0)),
            };
            sim.host(client.name.clone(), move || client.clone().live());
        }
        Self { sim, plan, servers, journal }
    }

    /// Goes on to the end; what is left on the servers then.
    fn run(&mut self) -> BTreeMap<String, crate::audit::Look> {
        let plan = Rc::clone(&self.plan);
        let mut faults = plan.faults.iter().peekable();
        while self.sim.elapsed() < LENGTH {
            while let Some((at, fault)) = faults.next_if(|(at, _)| *at <= self.sim.elapsed()) {
                self.journal.note_at(*at, "--", format_args!("{fault}"));
                self.strike(*fault);
            }
            self.sim.step().unwrap_or_else(|error| panic!("seed {}: {error}", self.plan.seed));
        }
        journal::stop(Some(LENGTH));
        let left = self.servers.iter().map(|server| (server.name.clone(), server.look())).collect();
        journal::stop(None);
        left
    }

    fn strike(&mut self, fault: Fault) {
        let (server, client) = (|number: usize| format!("s{number}"), |number: usize| format!("c{number}"));
        let sim = &mut self.sim;
        // What ends in a crash ends at this moment.
        journal::stop(Some(sim.elapsed()));
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
            Fault::CrashClient { client: number } => {
                self.journal.client_died();
                sim.crash(client(number));
            }
            Fault::RestartClient { client: number } => sim.bounce(client(number)),
        }
        wire::bury();
        // Tasks that died may have drawn, in any order.
        let at = u64::try_from(self.sim.elapsed().as_millis()).unwrap_or(0);
        fastrand::seed(self.plan.seed.wrapping_mul(1_000_003).wrapping_add(at));
        journal::stop(None);
    }
}
