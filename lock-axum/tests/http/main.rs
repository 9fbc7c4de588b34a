//! Tests the guarantees of the layer that a client can observe.
#![cfg(feature = "axum")]
#![allow(clippy::disallowed_methods, reason = "tests read the paused clock")]

mod answers;
mod bodies;
mod connections;
mod early;
mod encoding;
mod extractors;
mod hang_up;
mod keys;
mod kinds;
mod labels;
mod logs;
mod loss;
mod profiles;
mod property;
mod refusals;
mod services;
mod start_up;
mod support;
mod trouble;
mod uploads;
mod which;
