//! A TCP proxy that injects faults between a client and a server.

mod control;
mod relay;

pub use control::{Bytes, Flow, Proxy, Traffic};
