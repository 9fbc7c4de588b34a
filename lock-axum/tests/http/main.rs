//! What the layer promises, as a client sees it.

mod answers;
mod bodies;
mod connections;
mod extractors;
mod keys;
mod kinds;
mod logs;
mod loss;
mod services;
mod support;
