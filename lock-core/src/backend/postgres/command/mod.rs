//! The statements: their parameters, and the meaning of their answers.
//!
//! | file | holds |
//! | --- | --- |
//! | `server` | [`Server`]: the connections, and the deadlines of calls |
//! | `acquire` | acquiring, queueing, and the heartbeat of a waiter |
//! | `together` | sends the requests for one key in one call |
//! | `unsent`, `unsent_place` | the requests for one key until that call, and the place of one among them |
//! | `stuck` | limits the calls for a key whose row another session keeps locked |
//! | `renew`, `release`, `fence`, `latch`, `inspect` | the other calls |
//! | `parameter`, `answer` | what goes to the server, and what comes back |
//!
//! **The life of a waiter.** Its first request may take an entry in the queue (`together` here; `attempt.sql`, which
//! tries `short.sql` and then `acquire.sql`). It then sleeps until the server notifies it (`link/listen.rs`), or until
//! its next heartbeat, after a third of its entry's life. The release of the holder grants the key to the first waiter
//! for the life of an entry (`serve` in `shared.sql`), and notifies it. Its first renewal asks for the whole ttl.

mod acquire;
mod answer;
mod fence;
mod inspect;
mod latch;
mod parameter;
mod release;
mod renew;
mod server;
mod stuck;
mod together;
mod unsent;
mod unsent_place;

pub(crate) use server::Server;
