//! The HTTP layer over real connections, HTTP/1.1 and HTTP/2. One store is in memory, and one is milliseconds away.

mod client;
mod grpc;
mod hang_up;
mod keep_alive;
mod loss;
mod metrics;
#[path = "../../examples/common/plain.rs"]
mod plain;
mod plain_hyper;
mod stores;
mod trailers;
