//! The whole of `redlock://` in a simulated world: the unmodified client (the driver, the supervisor of its connections,
//! the voters, the quorum, the manager and its keeper) against servers that run the scripts as they are shipped. One
//! thread, one clock, one seed: the same seed gives the same history.
//!
//! ```text
//! cargo test -p lock-tests --test simulation                                                   # 500 seeds and the controls
//! SIMULATION_SEED=42 cargo test -p lock-tests --test simulation nobody -- --nocapture          # one, with its history
//! SIMULATION_FIRST=1000 SIMULATION_SEEDS=10000 cargo test -p lock-tests --test simulation nobody -- --nocapture
//! ```
//!
//! A world has 3 or 5 servers and 3 clients for 30 s, and a plan that its seed makes ([`plan`]). The last digit of the seed
//! says what kind of world it is, so that each stays small:
//!
//! - What clients ask for: one key alone; one key as readers and writers, of whom some become readers; two keys, together
//!   and each by itself. With a guard, by `run`, and again inside of it; without waiting, for a while, for ever.
//! - What happens: servers are killed and come back with their data or without, networks are cut in one direction or both,
//!   messages are held and arrive late, clients are slow, or their machines die; clocks of servers run fast or slow, and
//!   are set; servers are flushed, or lose their scripts. Or that, and clients stand still for up to 1.6 longest leases
//!   ([`process`]). Or servers throw locks away, one server or a majority of them at once.
//!
//! Faults end after 25 s, so that what is left behind can be told from what is still in use.
//!
//! What must be true ([`check`], [`audit`], [`held`]): definite holds exclude each other as their modes say, and a hold
//! counts until its loss was told; whoever uses a lock had all of its keys on a majority within the ttl before; fencing
//! tokens grow from grant to grant; a resource that refuses smaller ones never refuses a holder, and refuses whoever had
//! the lock before its last writer; a nested call enters at once what is there, and ends nothing; who waits for ever is
//! told of no failure; a server never changes what is one owner's on the word of another, never has a lock without an
//! expiry or a part of several keys, makes one only behind the gate, and never for a request that its client has given up;
//! who had a majority gives it back; in the end nothing is locked.
//!
//! # What is assumed
//!
//! What the library says that it needs (the pages of the module `backend::redlock` and of its quorum):
//!
//! - Clocks of servers gain or lose at most 0.93 %, of the 1 % that are taken off a lease, and among each other 0.06 %.
//! - One clock at a time is set, by more than half of the longest lease (less may pass for a slow network) and less than
//!   nine tenths of it (beyond it, and with data lost as well, the order of fencing tokens is not promised). It is set
//!   back no earlier than 1.3 longest leases later.
//! - Nobody deletes locks one by one, no machine is set back to a snapshot.
//! - A client is never paused between a look at its lease and what it does next: it is paused where it waits. (It writes at
//!   times without a look, with its token, after a pause or the end of its hold.)
//! - What a server throws away is noticed with the next heartbeat of any client. So nothing is asked of a hold for which a
//!   server voted that had thrown that very key away and had not been registered again. What is asked: some client that is
//!   connected registers the server within 0.7 s, and from then on it makes no lock for anybody until the longest lease is
//!   over. Nothing else happens to servers and networks in such a world but lost scripts, and one client never dies.
//!
//! Any number of servers may be killed, flushed and out of reach at once. `bugs` are the controls: a lock with one of
//! those bugs, or without the gate, is found out, and each says by whom ([`check::Oracle`]).
//!
//! # One store
//!
//! What a majority never does is in worlds of their own ([`single`]): a store forgets a lock that is held, and its old
//! holder goes on with turns that it numbers itself.
//!
//! # What is simulated
//!
//! The network is turmoil's: what is cut off is gone and never sent again, so a connection that lost a message is dead
//! until the client notices. Time goes in steps of 4 ms between machines, and to the millisecond within one. The servers
//! are small ([`keyspace`], [`lua`], [`server`]) and are held against a real one (`conformance`). Left out: memory
//! limits, replication, passwords, TLS, servers that stand still, `min_hold` and `max_hold`, `extend`, a shutdown; but in the
//! worlds of one store, several tasks of one client that want the same key.

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
