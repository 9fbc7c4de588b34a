//! The example `scheduler` over three real Redis servers. Apart from the other tests of `redlock://`, because it keeps
//! the machine busy.

#[path = "../cases/mod.rs"]
mod cases;
mod scheduler;
