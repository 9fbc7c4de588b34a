//! The builder: which key, which lock, for which requests, and what is answered without it.

mod answers;
mod builder;
mod failures;
mod key_fn;
mod keyed;
mod lock;
mod requests;

pub use builder::{HasKey, HasNoKey, Keyed, LockLayer, NoKeyYet};
