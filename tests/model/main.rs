//! The protocols between processes and a store with a queue, explored to the end: every order in which messages can
//! arrive, late or never, with tasks that give up, processes that die and a server that forgets.
//!
//! Two models, of one key each. The first (`protocol`, `server`, `process`, `world`, `properties`) is about who holds
//! and who waits: the plain SET, the place in the queue, its signs of life, the push, turns inside a process, and
//! cancelling. The second (`fencing`) is about tokens: made by the store on demand, or numbered by the holder. Each
//! follows the scripts of the Redis backend and what the library does with their answers; a rule that is changed there
//! is to be changed here.
//!
//! `holds` says what is true in every state. `rules` takes one rule away at a time, and expects that something goes
//! wrong: so each rule is needed, and the properties would notice. The shortest way to it is printed, see
//!
//! ```text
//! cargo test -p lock-tests --test model rules -- --nocapture
//! ```
//!
//! The sizes are small, for a test that takes seconds. `LOCK_MODEL=big` adds larger ones, 3 minutes and 1 GB with
//! `--release`; what has more than 20 million states is cut there, and says so.
//!
//! Left out: that clocks run at different speeds, shared modes, several keys, `min_hold`, clients of other languages,
//! the word that others wait (a holder may end its turns at any moment here), how many may wait, and the
//! end of the queue's keys by time.

mod documented;
mod explorer;
mod fencing;
mod holds;
mod process;
mod properties;
mod protocol;
mod rules;
mod server;
mod world;
