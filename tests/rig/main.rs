//! The rig itself, on a real server: a fault that does not do what it says would make every other test worthless.

mod clock;
mod processes;
mod proxy;
mod server;
