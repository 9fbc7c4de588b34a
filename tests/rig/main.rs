//! Tests of the rig itself on a real server, because a fault that does nothing would make every other test worthless.

mod clock;
mod processes;
mod proxy;
mod server;
