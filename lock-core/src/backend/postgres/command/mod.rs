//! The statements: their parameters, and what their answers mean.

mod acquire;
mod answer;
mod fence;
mod inspect;
mod latch;
mod line;
mod release;
mod renew;
mod server;
mod stuck;

pub(crate) use server::Server;
