//! The whole of `redlock://` in a simulated world: the unmodified client (the driver, the supervisor of its
//! connections, the voters, the quorum, the manager and its renewer) against servers that run the shipped scripts. One
//! thread, one clock and one seed: the same seed gives the same history.
//!
//! ```sh
//! cargo test -p lock-tests --test simulation                                                   # 30 seeds and the controls
//! LOCK_TEST_SCALE=5 cargo test -p lock-tests --test simulation                                 # 150 seeds and the controls
//! SIMULATION_SEED=42 cargo test -p lock-tests --test simulation nobody -- --nocapture          # one, with its history
//! SIMULATION_FIRST=1000 SIMULATION_SEEDS=10000 cargo test -p lock-tests --test simulation nobody -- --nocapture
//! ```
//!
//! A world has 3 or 5 servers and 3 clients for 30 s, and a plan that its seed determines ([`plan`]). The last digit of
//! the seed selects the kind of world, so that each kind stays small:
//!
//! - Requests use one exclusive key, or one key with readers and writers, or two keys. Some writers are downgraded. Two
//!   keys are requested together or one at a time. A client holds a lock with a guard, by `run`, or by a `run` inside a
//!   `run`. It does not wait, waits with a limit, or waits for ever.
//! - Faults of servers: they are killed and return with or without their data, are flushed, or lose their scripts.
//!   Their clocks run fast or slow, and are set.
//! - Other faults: networks are cut in one direction or both, messages are delayed, clients are slow, or their machines
//!   die. In some worlds clients are also paused for up to 1.6 longest leases ([`process`]). In others, one server or a
//!   majority of them at once evicts locks.
//!
//! Faults end after 25 s, so that leftovers can be distinguished from locks in use.
//!
//! Every history must meet these conditions ([`check`], [`audit`], [`held`]):
//!
//! - Certain holds exclude each other according to their modes. A hold counts until its loss was reported.
//! - A client that uses a lock had all of its keys on a majority within the last ttl.
//! - Fencing tokens grow from grant to grant. A resource that refuses smaller tokens never refuses a holder. It refuses
//!   every client that had the lock before its last writer.
//! - A nested call reuses the existing grant at once, and does not end it.
//! - A wait without a limit reports no failure.
//! - A server never changes the data of one owner for another. It never has a lock without an expiry, or with only a
//!   part of its keys. It creates a lock only after the gate, and never for a request that its client has given up.
//! - An owner that had a majority is released.
//! - At the end nothing is locked.
//!
//! # Assumptions
//!
//! The library documents these requirements (the pages of the module `backend::redlock` and of its quorum):
//!
//! - Clocks of servers gain or lose at most 0.93 %, of the 1 % that are subtracted from a lease. They differ from each
//!   other by at most 0.06 %.
//! - One clock at a time is set, by more than half of the longest lease and by less than nine tenths of it. (A smaller
//!   step may look like a slow network. After a larger step together with a loss of data, the order of fencing tokens
//!   is not promised.) The clock is set back no earlier than 1.3 longest leases later.
//! - No user deletes single locks, and no machine is set back to a snapshot.
//! - A client is never paused between a check of its lease and the action that follows. It is paused while it waits.
//!   (It sometimes writes without a check, with its token, after a pause or the end of its hold.)
//! - The next heartbeat of any client detects an eviction. So a hold is exempt from the conditions if one of its votes
//!   came from a server that had evicted that very key and had not been registered again. Instead, a connected client
//!   must register the server within 0.7 s. From then on, the server creates no lock for any client until the longest
//!   lease has ended. The only other fault in such a world is lost scripts, and one client never dies.
//!
//! Any number of servers may be killed, flushed and unreachable at once. `bugs` has the controls: a lock with one of
//! its bugs, or without the gate, must be found. Each control names the check that finds it ([`check::Oracle`]).
//!
//! # One store
//!
//! Other worlds have a single store ([`single`]), because this never happens with a majority: a store forgets a held
//! lock, and the old holder continues with hand-offs that it numbers itself.
//!
//! # The simulation
//!
//! turmoil simulates the network. A message that is cut off is lost and never sent again, so its connection is dead
//! until the client notices. Time moves in steps of 4 ms between machines, and by milliseconds within one. The servers
//! are small ([`keyspace`], [`lua`], [`server`]) and are compared with a real one (`conformance`). The simulation
//! leaves out memory limits, replication, passwords, TLS, paused servers, `min_hold` and `max_hold`, `extend`, and a
//! shutdown. Only the worlds of one store have several tasks of one client that want the same key.

mod audit;
mod bugs;
mod check;
mod client;
mod conformance;
mod held;
mod journal;
mod keyspace;
mod lua;
mod node;
mod owners;
mod plan;
mod planted;
mod process;
mod resource;
mod resp;
mod seeds;
mod server;
mod single;
mod store;
mod turn;
mod wire;
mod world;
