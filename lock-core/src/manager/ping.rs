//! Whether the store is there: for probes and for operators.

use crate::backend::Ping;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::Result;
use crate::manager::LockManager;

impl LockManager {
    /// Asks the store whether it serves locks now. It locks nothing, and the store's own limit for a call bounds it.
    ///
    /// | store | what is asked |
    /// | --- | --- |
    /// | `memory://` | nothing: it is always there |
    /// | `redis://`, Sentinel | the primary, by a write that changes nothing |
    /// | Redis Cluster | the same of each primary; more than half must serve |
    /// | `redlock://` | the same of each voter, and whether it votes; more than half must |
    /// | `postgres://` | the server, by a write that changes nothing |
    /// | `mode=advisory` | the session that holds the locks |
    /// | `etcd://` | one member, by a transaction that writes nothing, which most members confirm |
    /// | `zookeeper://` | the session, by a `sync` with the leader |
    ///
    /// An answer with [`degraded`](Ping::degraded) sentences means that locks work and that something needs a person:
    /// a voter is down, say. The answer is true for the moment: it replaces no error handling of a lock.
    ///
    /// # Errors
    /// [`Unavailable`](LockErrorKind::Unavailable) when the store does not answer or refuses; the text names the server.
    /// [`NoQuorum`](LockErrorKind::NoQuorum) when too few voters of `redlock://` serve.
    /// [`ShuttingDown`](LockErrorKind::ShuttingDown) after [`shutdown`](Self::shutdown).
    /// [`Unsupported`](LockErrorKind::Unsupported) on a store of your own without [`ping`](crate::backend::Backend::ping).
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::LockManager;
    ///
    /// let ping = LockManager::in_memory().ping().await?;
    /// assert_eq!((ping.servers, ping.serving), (1, 1));
    /// println!("the store {ping}"); // the store answered in 0.0ns
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<Ping> {
        let engine = self.engine();
        engine.check_open()?;
        engine.inside(engine.store.ping()).await
    }
}
