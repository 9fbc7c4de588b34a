//! Checks whether the store serves locks, for probes and operators.

use crate::backend::Ping;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::Result;
use crate::manager::LockManager;

impl LockManager {
    /// Checks whether the store serves locks now. The check locks nothing, and lasts at most as long as the store's
    /// timeout for a single call.
    ///
    /// | store | what is checked |
    /// | --- | --- |
    /// | `memory://` | nothing: it is always available |
    /// | `redis://`, Sentinel | the primary, by a write that changes nothing |
    /// | Redis Cluster | the same for each primary; more than half must serve |
    /// | `redlock://` | the same for each voter, and that it votes; more than half must vote |
    /// | `postgres://` | the server, by a write that changes nothing |
    /// | `mode=advisory` | the session that holds the locks |
    /// | `etcd://` | one member, by a transaction that writes nothing, which most members confirm |
    /// | `zookeeper://` | the session, by a `sync` with the leader |
    ///
    /// If the answer has [`degraded`](Ping::degraded) sentences, locks work, but a person must repair something, for
    /// example a voter that is down. The store may fail right after the answer, so requests for locks still need error
    /// handling.
    ///
    /// # Errors
    /// [`Unavailable`](LockErrorKind::Unavailable) if the store does not answer or refuses the request; the text names
    /// the server. [`NoQuorum`](LockErrorKind::NoQuorum) if too few voters of `redlock://` serve.
    /// [`ShuttingDown`](LockErrorKind::ShuttingDown) after [`shutdown`](Self::shutdown).
    /// [`Unsupported`](LockErrorKind::Unsupported) if a store of your own has no
    /// [`ping`](crate::backend::Backend::ping).
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
        engine.inside(engine.store.backend.ping_dyn()).await
    }
}
