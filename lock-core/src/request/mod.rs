//! A request: key, kind, ttl, strategy and options, validated once.

mod acquire;
mod available;
mod lock_request;
mod setters;

pub use lock_request::LockRequest;
