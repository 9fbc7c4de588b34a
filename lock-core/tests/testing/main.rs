//! What the help for tests promises to tests.

mod asserting;
mod contending;
mod failing;
mod history;
mod losing;
