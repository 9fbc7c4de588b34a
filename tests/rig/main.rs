//! Tests of the test tools themselves on a real server. If a fault had no effect, every other test would be worthless.

mod clock;
mod processes;
mod proxy;
mod server;
