//! Tests of the library on real etcd clusters: the contract, what is stored, and the effect of faults.
//!
//! Every test has its own cluster. Time limits are generous upper bounds, except in tests of an order of events on one
//! clock.

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

mod alarms;
mod busy;
#[allow(dead_code, reason = "the tests of Redis use more of it")]
#[path = "../redis_process/contenders.rs"]
mod contenders;
mod contract;
mod crowd;
mod doctor;
mod fair;
#[path = "../findings/mod.rs"]
mod findings;
mod history;
#[path = "../in_line/mod.rs"]
mod in_line;
mod kinds;
mod late;
mod leader;
#[path = "../leaders/mod.rs"]
mod leaders;
#[path = "../load/mod.rs"]
mod load;
mod login;
#[path = "../no_stall/mod.rs"]
mod no_stall;
#[path = "../outside/mod.rs"]
mod outside;
mod partition;
mod ping;
#[path = "../pings/mod.rs"]
mod pings;
mod processes;
mod proxied;
mod rounded;
mod sessions;
mod stalls;
mod stopped;
mod store;
mod stored;
mod support;
mod tls;
mod waiting;
