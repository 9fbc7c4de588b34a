//! Models of the protocols between processes and a store with a queue. The tests visit every state of a model: messages
//! arrive in every order, late or never, while tasks give up, processes die and a server loses its data.
//!
//! There are two models of one key each. The first (`protocol`, `server`, `process`, `world`, `properties`) is about
//! holders and waiters: the plain SET, the queue entry, its heartbeats, the push, the hand-offs inside a process, and
//! cancellation. The second (`fencing`) is about tokens. The store creates them on demand, or the holder numbers them.
//! Each model follows the scripts of the Redis backend, and the reaction of the library to their answers. If a rule
//! changes there, the model must change too.
//!
//! `holds` has the properties that are true in every state. `rules` removes one rule at a time, and expects that a
//! property breaks. So each rule is needed, and the properties detect its absence. The test prints the shortest path to
//! the broken state:
//!
//! ```sh
//! cargo test -p lock-model rules -- --nocapture
//! ```
//!
//! The models are small, so that a test takes seconds. `LOCK_TEST_SCALE=10` adds larger ones, which take 3 minutes and
//! 1 GB with `--release`. If a model has more than 20 million states, the test stops there and prints a note.
//!
//! The models leave out clocks of different speed, shared modes, several keys, `min_hold`, older versions of the
//! library, the limit of waiters, and the expiry of the queue's keys. Without lingering grants, they also leave out the
//! notification that others wait, because a holder may end its hand-offs at any moment here.

mod documented;
mod explorer;
mod fencing;
mod holds;
mod process;
mod properties;
mod protocol;
mod rules;
#[allow(unreachable_pub, reason = "the rig has the same file")]
#[path = "../src/scale.rs"]
mod scale;
mod server;
mod world;
