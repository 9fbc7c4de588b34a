//! A resource that refuses old fencing tokens.

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use crate::wait::PATIENCE;

/// Refuses a write whose token is smaller than the largest earlier token. The check and the write are one step on the
/// server.
const WRITE: &str = "local last = tonumber(redis.call('GET', KEYS[1]) or '0') \
                     if tonumber(ARGV[1]) < last then return 0 end \
                     redis.call('SET', KEYS[1], ARGV[1]) return 1";

/// A protected resource as a user should build it. It stores the largest fencing token of all writes, and refuses
/// smaller ones. It is on its own Redis server, which has no faults.
#[derive(Clone, Debug)]
pub struct Fenced {
    connection: MultiplexedConnection,
}

impl Fenced {
    /// Connects to the server at `url`.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn connect(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a URL");
        // A process may be stopped between a write and its answer, and must not count this as no answer. On a busy
        // machine, the connect may also take longer than the client's default of a second.
        let patient =
            AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(Some(PATIENCE));
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
        let connection = connection.expect("the resource answers");
        Self { connection }
    }

    /// Writes to the resource `name` with `token`. Returns whether the write was accepted.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn write(&self, name: &str, token: u64) -> bool {
        let mut write = redis::cmd("EVAL");
        write.arg(WRITE).arg(1).arg(name).arg(token);
        let accepted: u32 =
            write.query_async(&mut self.connection.clone()).await.expect("the resource answers");
        accepted == 1
    }
}
