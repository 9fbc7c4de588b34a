//! The common code of the examples `flash_sale`, `scheduler` and `import_worker`: a database, processes that are
//! started and killed, a clock and random numbers. This code acquires no locks.
#![allow(dead_code, reason = "each example uses its part")]

pub(crate) mod children;
pub(crate) mod clock;
pub(crate) mod database;
pub(crate) mod random;
pub(crate) mod store;
pub(crate) mod variable;
