//! The role of a server that grants locks without a quorum.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use ::redis::Pipeline;

use super::config::Endpoint;
use super::durability::{Confirmer, Proof, patience};
use super::error::Failure;
use super::keyspace::Keyspace;
use super::link::{Connection, Greeting, Role, SessionState, Shared, text};
use crate::backend::BoxFuture;

/// The number of heartbeats of a connection between two requests for the number of evicted keys: about five seconds.
const BEATS_PER_LOOK: u32 = 10;

/// A server that grants locks without a quorum: the one server of a store, or the Cluster node that has the slot.
#[derive(Debug)]
pub(crate) struct Primary {
    /// Confirms that this Cluster node still has slots. `None` for the one server of a store.
    cluster: Option<Weak<dyn Witness>>,
}

/// Confirms whether a server is still a primary of a Cluster.
pub(crate) trait Witness: fmt::Debug + Send + Sync {
    /// Checks with several nodes of the Cluster whether the node at `place` still has slots, or will soon get one.
    /// Returns an error otherwise.
    fn vouch<'a>(&'a self, place: &'a Endpoint) -> BoxFuture<'a, Result<(), Failure>>;
}

impl Primary {
    /// Creates the role of the one server of a store.
    pub(crate) const fn alone() -> Self {
        Self { cluster: None }
    }

    /// Creates the role of a Cluster node. `witness` confirms that the node still has slots.
    pub(crate) fn node(witness: Weak<dyn Witness>) -> Self {
        Self { cluster: Some(witness) }
    }

    /// Creates the role of another node of the same Cluster.
    pub(crate) fn sibling(&self) -> Self {
        Self { cluster: self.cluster.clone() }
    }
}

/// A connection to a primary.
pub(crate) type PrimaryConnection = Connection<Option<Confirmer>>;

/// The [`Confirmer`] of a connection. `None` without `durability`, because locks then need no copies on replicas.
impl SessionState for Option<Confirmer> {
    fn delay(&self, timeout: Duration) -> Duration {
        // An answer may have to wait for the confirmation of an earlier command.
        self.as_ref().map_or(Duration::ZERO, |_| patience(timeout))
    }
}

impl Role for Primary {
    type Session = Option<Confirmer>;
    const QUEUES: bool = true;

    fn keyspace(&self) -> Keyspace {
        match self.cluster {
            None => Keyspace::Whole,
            Some(_) => Keyspace::Slots,
        }
    }

    async fn admit(
        &self,
        shared: &Shared<Self>,
        greeting: &Greeting<'_>,
    ) -> Result<Option<Confirmer>, Failure> {
        let Some(durability) = shared.config.durability else { return Ok(None) };
        let proof = durability.prove(greeting.info, greeting.connection, shared.config.min_replicas).await?;
        if greeting.is_first && proof == Proof::Assumed {
            tracing::warn!(
                server = %shared.address(),
                "min-replicas-to-write of redis could not be read and is taken to be right: where it is not, a \
                 primary that was replaced goes on granting locks"
            );
        }
        Ok(Some(Confirmer::new(durability)))
    }

    async fn vouch(&self, place: &Endpoint) -> Result<(), Failure> {
        match self.cluster.as_ref().and_then(Weak::upgrade) {
            Some(witness) => witness.vouch(place).await,
            // A single server has no witness. If the router of a Cluster was dropped, no call uses this connection.
            None => Ok(()),
        }
    }

    async fn heartbeat(&self, connection: &PrimaryConnection, shared: &Shared<Self>, count: u32) {
        if count.is_multiple_of(BEATS_PER_LOOK) {
            report_evictions(connection, shared).await;
        }
    }

    async fn confirm(connection: &PrimaryConnection, deadline: Duration) -> Result<(), Failure> {
        match &connection.session {
            None => Ok(()),
            Some(confirmer) => confirmer.confirm(connection, deadline).await,
        }
    }
}

/// Requests the number of evicted keys from the server, and reports an increase.
async fn report_evictions(connection: &PrimaryConnection, shared: &Shared<Primary>) {
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("INFO").arg("server").cmd("INFO").arg("stats");
    if let Ok(answers) = connection.send_all(&questions).await
        && let [run, stats] = answers.as_slice()
        && let (Ok(run), Ok(stats)) = (text(run), text(stats))
    {
        shared.report_evictions(&format!("{run}\r\n{stats}"));
    }
}
