//! The calls of the store on one server. Each file builds the requests of its calls and reads the answers.

pub(crate) mod acquire;
mod downgrade;
mod fence;
mod grant;
mod inspect;
mod latch;
mod ping;
pub(crate) mod release;
mod renew;
pub(crate) mod reply;
mod server;

pub(crate) use acquire::{fence_of, is_plain};
pub(crate) use renew::{PER_SCRIPT, Verdict};
pub(crate) use server::Server;
