//! Tests the console from the view of a browser.
#![allow(clippy::disallowed_methods, reason = "tests read the paused clock")]

mod access;
mod away;
mod doctor;
mod live;
mod log;
mod mounted;
mod paths;
mod release;
mod store;
mod support;
