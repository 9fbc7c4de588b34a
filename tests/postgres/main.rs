//! Tests of the library on a real Postgres server: what it stores, and the effect of faults.
//!
//! Every test has its own server. Time limits are generous upper bounds, except in tests of an order of events on one
//! clock.

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

mod advisory;
#[path = "../cases/mod.rs"]
mod cases;
mod common;
mod connections;
#[allow(dead_code, reason = "the tests of Redis use more of it")]
#[path = "../redis_process/contenders.rs"]
mod contenders;
mod contract;
mod crowd;
mod doctor;
mod edges;
mod failover;
mod faults;
#[path = "../findings/mod.rs"]
mod findings;
mod handed_off;
mod hanging;
mod herd;
mod history;
mod import;
#[path = "../in_line/mod.rs"]
mod in_line;
mod in_order;
mod leader;
#[path = "../leaders/mod.rs"]
mod leaders;
#[path = "../load/mod.rs"]
mod load;
mod migration;
mod names;
#[path = "../no_stall/mod.rs"]
mod no_stall;
mod opened;
mod orders;
#[path = "../outside/mod.rs"]
mod outside;
mod ping;
#[path = "../pings/mod.rs"]
mod pings;
mod plenty;
mod pooler;
mod process;
mod session_pooler;
mod sessions;
mod stalls;
mod start;
mod storm;
mod stuck;
mod support;
mod tables;
mod tls;
mod used_once;
mod verify;
mod verify_here;
