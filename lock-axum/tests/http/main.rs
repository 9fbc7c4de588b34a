//! What the layer promises, as a client sees it.

mod answers;
mod bodies;
mod connections;
mod encoding;
mod extractors;
mod keys;
mod kinds;
mod logs;
mod loss;
mod refusals;
mod services;
mod support;
mod trouble;
mod which;
