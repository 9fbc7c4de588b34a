//! Tests on real ZooKeeper servers.

mod answers;
mod contract;
mod cost;
mod curator;
mod ensemble;
mod history;
mod kazoo;
mod kinds;
mod layout;
mod leader;
#[path = "../leaders/mod.rs"]
mod leaders;
#[path = "../load/mod.rs"]
mod load;
mod pauses;
mod refusals;
mod removal;
mod replaced;
mod sessions;
mod several;
mod silence;
mod storm;
mod support;
mod watches;

/// The program for other processes.
const WORKER: &str = env!("CARGO_BIN_EXE_worker");
