//! Defines requests: key, kind, ttl, strategy and options, which are checked once.

mod acquire;
mod available;
mod lock_request;
mod setters;

pub use lock_request::LockRequest;
