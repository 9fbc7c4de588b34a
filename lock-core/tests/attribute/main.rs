//! The behaviour of a locked function, by topic. All topics are one binary, on the memory store.

mod fallback;
mod generics;
mod handle;
mod hygiene;
mod keys;
mod kinds;
mod labels;
mod lifecycle;
mod options;
mod order;
mod outcomes;
mod receivers;
mod support;
mod templates;
mod traits;
