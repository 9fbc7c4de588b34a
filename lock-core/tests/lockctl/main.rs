//! The program `lockctl` on real servers: exit codes, signals, the end of a command before its lease is over, and what the
//! commands print.

mod bed;
mod cases;
mod ctl;
mod golden;
mod log;
mod loss;
mod running;
mod shown;
mod stores;
mod terminal;
