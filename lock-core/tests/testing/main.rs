//! The promises of the test helpers to their users.

mod asserting;
mod contending;
mod failing;
mod history;
mod losing;
