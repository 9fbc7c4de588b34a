//! Tests of the library on a real Redis server: what it sends, what it stores, and the effect of faults.
//!
//! Every test has its own server. Time limits are generous upper bounds, except in tests of an order of events on one
//! clock.

mod bad_input;
mod busy;
mod commands;
mod contract;
mod cost;
mod doctor;
mod drops;
mod durability;
mod early;
mod fair;
mod fenced;
#[path = "../findings/mod.rs"]
mod findings;
mod history;
#[path = "../in_line/mod.rs"]
mod in_line;
mod inspect;
mod interop;
mod kinds;
mod latch;
mod lingering;
#[path = "../load/mod.rs"]
mod load;
mod loss;
mod mark;
#[path = "../no_stall/mod.rs"]
mod no_stall;
mod observed;
mod order;
mod other_data;
mod outage;
#[path = "../outside/mod.rs"]
mod outside;
mod owners;
mod ping;
#[path = "../pings/mod.rs"]
mod pings;
mod queue;
mod redis_py;
mod refusals;
mod releasing;
mod renewal;
mod rights;
mod runtimes;
mod settings;
mod shutdown;
mod stalls;
mod stopped;
mod store;
mod storm;
mod support;
mod tls;
mod turns;
mod unpolled;
mod warnings;
