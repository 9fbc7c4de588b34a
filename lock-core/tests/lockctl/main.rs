//! Tests the program `lockctl` on real servers: exit codes, signals, the output of the commands, and that a command
//! ends before the end of its lease.

mod bed;
mod cases;
mod ctl;
mod golden;
mod log;
mod loss;
mod running;
mod short;
mod shown;
mod stores;
mod terminal;
