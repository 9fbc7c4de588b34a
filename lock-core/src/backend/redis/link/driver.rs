//! The driver's task of a connection to a server or a sentinel.

use std::convert::Infallible;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, PushInfo, RedisConnectionInfo, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::gather::Gather;

/// The driver's task. Dropping this value aborts the task, so that an abandoned dial closes its socket.
#[derive(Debug)]
pub(crate) struct Driver(pub(super) JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The capacity of the driver's queue. The capacity is so large that no command ever waits for space.
///
/// If a command waited for space, it would have no position in the queue yet, and another command could overtake it.
/// The queue stays short anyway: each command has a caller with a deadline, and the driver drops the command when the
/// caller is dropped.
const QUEUE: usize = Semaphore::MAX_PERMITS;

/// Authenticates with HELLO 3, and spawns the driver's task. The driver calls `push` with each push message before it
/// delivers any reply that follows the message.
pub(super) async fn connect<S>(
    info: &RedisConnectionInfo,
    stream: S,
    push: impl Fn(PushInfo) + Send + Sync + 'static,
) -> RedisResult<(MultiplexedConnection, Driver)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Every call has its own deadline, so the driver needs no time limits.
    let options = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
        .set_push_sender(move |message: PushInfo| {
            push(message);
            Ok::<_, Infallible>(())
        });
    let (connection, driver) =
        MultiplexedConnection::new_with_config(info, Gather::new(stream), options).await?;
    Ok((connection, Driver(tokio::spawn(driver))))
}
