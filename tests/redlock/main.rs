//! The library on several independent Redis servers: with one voter, and with a majority under faults.

mod clocks;
mod contract;
mod cost;
mod doctor;
#[path = "../findings/mod.rs"]
mod findings;
mod forgetting;
mod gate;
mod party;
mod ping;
#[path = "../pings/mod.rs"]
mod pings;
mod quarantine;
mod refusals;
mod restarts;
mod secure;
mod stuck;
mod support;
mod torture;
mod url;
