//! Tests on real ZooKeeper servers.

mod answers;
mod contract;
mod cost;
mod crowd;
mod curator;
mod doctor;
mod ensemble;
mod fair;
#[path = "../findings/mod.rs"]
mod findings;
mod history;
#[path = "../in_line/mod.rs"]
mod in_line;
mod kazoo;
mod kinds;
mod layout;
mod leader;
#[path = "../leaders/mod.rs"]
mod leaders;
#[path = "../load/mod.rs"]
mod load;
#[path = "../no_stall/mod.rs"]
mod no_stall;
#[path = "../outside/mod.rs"]
mod outside;
mod pauses;
mod ping;
#[path = "../pings/mod.rs"]
mod pings;
mod refusals;
mod removal;
mod replaced;
mod sasl;
mod sessions;
mod several;
mod silence;
mod stalls;
mod storm;
mod support;
mod tls;
mod used_once;
mod watches;

/// The program that runs in the other processes.
const WORKER: &str = env!("CARGO_BIN_EXE_worker");
