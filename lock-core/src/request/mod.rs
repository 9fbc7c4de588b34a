//! Defines requests. A request has a key, a kind, a ttl, a strategy and other options, which are checked together.

mod acquire;
mod available;
mod lock_request;
mod setters;

pub use lock_request::LockRequest;
