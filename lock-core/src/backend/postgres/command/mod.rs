//! Sends the statements with their parameters, and reads their answers.
//!
//! | file | holds |
//! | --- | --- |
//! | `server` | [`Server`]: the connections, and the deadlines of calls |
//! | `acquire` | acquiring, queueing, and the heartbeat of a waiter |
//! | `together` | sends requests for the same key in one call |
//! | `unsent`, `unsent_place` | the requests that wait for the next call, and the place of one request |
//! | `stuck` | limits the calls for a key whose row another session keeps locked |
//! | `renew`, `release`, `fence`, `latch`, `inspect` | the other calls |
//! | `parameter`, `answer` | the parameters of the requests, and the answers of the server |
//!
//! **The life of a waiter.** The first request of a waiter may add an entry to the queue (`together` here, and
//! `attempt.sql`). The waiter then sleeps until the server notifies it (`link/listen.rs`), or until its next heartbeat.
//! A heartbeat is due after a third of the lease of the entry. When the holder releases the key, the server grants the
//! key to the first waiter (`serve` in `shared.sql`), and notifies this waiter. The lease of this grant is only as long
//! as the lease of an entry. The waiter's first renewal requests the whole ttl.

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
