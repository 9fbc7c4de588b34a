//! Models of the protocols between processes and a store with a queue, explored completely: messages arrive in every
//! order, late or never, while tasks give up, processes die and a server forgets.
//!
//! There are two models of one key each. The first (`protocol`, `server`, `process`, `world`, `properties`) is about
//! holders and waiters: the plain SET, the queue entry, its heartbeats, the push, the hand-offs inside a process, and
//! cancellation. The second (`fencing`) is about tokens, which the store makes on demand or the holder numbers. Each
//! model follows the scripts of the Redis backend and the reaction of the library to their answers. A change of a rule
//! there requires the same change here.
//!
//! `holds` has the properties that are true in every state. `rules` removes one rule at a time, and expects that a
//! property breaks. So each rule is needed, and the properties detect its absence. The test prints the shortest way to
//! the broken state:
//!
//! ```sh
//! cargo test -p lock-model rules -- --nocapture
//! ```
//!
//! The sizes are small, for a test that takes seconds. `LOCK_TEST_SCALE=10` adds larger ones, which take 3 minutes and
//! 1 GB with `--release`. A model with more than 20 million states is cut there, and says so.
//!
//! The models leave out clocks of different speed, shared modes, several keys, `min_hold`, older versions of the
//! library, the notification that others wait when no grants linger (a holder may end its hand-offs at any moment
//! here), the limit of waiters, and the expiry of the queue's keys.

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
