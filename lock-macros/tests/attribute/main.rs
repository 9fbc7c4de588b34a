//! What a locked function does, by topic. One binary, on the memory store.

mod generics;
mod handle;
mod hygiene;
mod keys;
mod kinds;
mod lifecycle;
mod options;
mod outcomes;
mod receivers;
mod support;
mod traits;
