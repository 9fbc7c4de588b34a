//! Defines [`ZooKeeper`]: connecting, and the managers that are attached to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::Error;

use super::config::Config;
use super::connect::silent;
use super::error::Failure;
use super::places::make_base;
use super::process::Processes;
use super::session::check;
use crate::backend::remote::tries;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LockError, Result};
use crate::runtime::current_runtime;

/// The longest time for which [`close`](crate::backend::Backend::close) waits for the end of a session at the server.
const GOODBYE: Duration = Duration::from_secs(1);

/// ZooKeeper as a lock store: one server or an ensemble.
///
/// The [module](super) describes what this store does, what it saves in ZooKeeper and what it cannot promise. A process
/// needs only one value of this type. Each manager that uses the value has one session. Dropping the value ends the
/// sessions, and their locks end with them.
pub struct ZooKeeper {
    pub(super) config: Arc<Config>,
    /// The session timeout that the servers granted.
    pub(super) session: Duration,
    pub(super) processes: Arc<Processes>,
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeper").field("config", &self.config).finish_non_exhaustive()
    }
}

impl ZooKeeper {
    /// Connects to the servers at `url`: `zookeeper[s]://[user:password@]host[:port][,host..][/path]`.
    ///
    /// The directories of the locks are below the path, `/locks` by default. This path is created if it is missing. The
    /// options and their defaults are `?session_timeout=10s&timeout=5s&connect_timeout=10s`. They set the time after
    /// which the servers free the locks of a dead process, the time limit of one call, and the time limit of this call.
    /// The [module](super) lists all options.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): the URL is wrong.
    /// [`Unsupported`](LockErrorKind::Unsupported): `zookeepers` without the feature `tls`, `auth=sasl`
    /// without `zookeeper-sasl`, GSSAPI, a server before 3.5.
    /// [`Unavailable`](LockErrorKind::Unavailable): no server answers or TLS fails (temporary); the servers refuse the
    /// password, or the user lacks a permission (permanent). No error shows the URL or a part of the password.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect() -> lock_core::Result<()> {
    /// use lock_core::backend::zookeeper::ZooKeeper;
    ///
    /// let zookeeper = ZooKeeper::connect("zookeeper://127.0.0.1/locks").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        current_runtime()?;
        let config = Config::parse(url)?.secured()?;
        // This session is only for the check of the servers. The sessions of the managers belong to other threads.
        let ask = async |left| match timeout(left, first(&config)).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(error)) => Err(config.refusal(&error, left).await.before_any_request()),
            Err(_) => Err(silent(left).before_any_request()),
        };
        let session = tries::connect(&config, config.connect_timeout, |left| Box::pin(ask(left))).await;
        let session = session.map_err(|failure| failure.error_of(&config))?;
        Ok(Self { config: Arc::new(config), session, processes: Arc::default() })
    }

    pub(super) fn error(&self, failure: &Failure) -> LockError {
        failure.error_of(&self.config)
    }

    /// Ends every session, and waits for at most [`GOODBYE`] until the servers have confirmed each end.
    pub(super) async fn end(&self) {
        for process in self.processes.drain() {
            let Some(session) = process.close() else { continue };
            let mut state = session.client().state_watcher();
            drop(session);
            let closed =
                async { while !state.state().is_terminated() && !state.changed().await.is_terminated() {} };
            let _ = timeout(GOODBYE, closed).await;
        }
    }

    /// Returns a handle that ends sessions, for tests.
    #[cfg(feature = "testkit")]
    #[doc(hidden)]
    #[must_use]
    pub fn operator(&self) -> super::Operator {
        super::Operator::new(Arc::clone(&self.config), Arc::downgrade(&self.processes))
    }
}

/// Creates the directory of the locks if it is missing, and checks the permissions. Returns the session timeout that
/// the servers grant.
async fn first(config: &Config) -> Result<Duration, Error> {
    let client = config.connect().await?;
    make_base(&client, config).await?;
    // Without the permission for this check, every lock would be lost, because the check is the proof of contact.
    check(&client, &config.base).await?;
    config.check_user(&client).await?;
    Ok(client.session_timeout())
}
