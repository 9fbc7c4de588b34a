//! The library in several processes on a real Redis server.

mod ends;
mod exclusion;
mod locked;
mod pauses;

/// The program under the tests' control; see its documentation.
const WORKER: &str = env!("CARGO_BIN_EXE_worker");
