//! The library in several processes on a real Redis server.

mod contenders;
mod deaths;
mod ends;
mod exclusion;
mod faults;
mod latch;
mod leader;
#[path = "../leaders/mod.rs"]
mod leaders;
mod locked;
mod pauses;
mod progress;

/// The program that the tests control. Its documentation describes its modes.
const WORKER: &str = env!("CARGO_BIN_EXE_worker");
