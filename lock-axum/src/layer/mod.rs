//! Builds a layer. The methods set its key, its lock, the requests to lock, and the answers to requests that are not
//! served.

mod answers;
mod builder;
mod failures;
mod key_fn;
mod keyed;
mod lock;
mod requests;

pub use builder::{HasKey, HasNoKey, Keyed, LockLayer, NoKeyYet, TakesExtension};
