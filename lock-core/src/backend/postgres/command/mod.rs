//! The statements: their parameters, and the meaning of their answers.

mod acquire;
mod answer;
mod fence;
mod inspect;
mod latch;
mod parameter;
mod release;
mod renew;
mod request_place;
mod request_queue;
mod server;
mod stuck;
mod together;

pub(crate) use server::Server;
