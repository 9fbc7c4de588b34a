//! Tests of the promises that the test helpers make to their users.

mod asserting;
mod contending;
mod failing;
mod history;
mod losing;
