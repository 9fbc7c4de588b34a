//! The example `scheduler` on three real Redis servers. It is apart from the other tests of `redlock://`, because it
//! keeps the machine busy.

#[path = "../cases/mod.rs"]
mod cases;
mod scheduler;
