//! Sends the requests about the nodes of one key.

use zookeeper_client::{Client, CreateMode, Error};

use super::config::Config;
use super::error::Failure;
use super::grants::Entry;
use super::line::Line;
use super::made::MADE_HERE;
use super::names;
use super::record::{read_record, record};
use super::session::{Session, now};
use super::turns::Turn;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::error::LockErrorKind;
use crate::key::Key;
use crate::owner::OwnerRecord;

/// The number of tries to create a node. A deleted directory is created again before the next try.
pub(super) const TRIES: usize = 8;

/// One claim at one of its keys, in one session.
pub(super) struct Site<'a> {
    pub(super) config: &'a Config,
    pub(super) session: &'a Session,
    pub(super) claim: &'a Claim,
    pub(super) directory: String,
    /// The [mark](names::mark): the beginning of the names of the claim's nodes.
    pub(super) mark: String,
    /// The beginning of the paths of the claim's nodes.
    pub(super) prefix: String,
}

/// The nodes of a key, as a server returned them.
pub(super) struct Seen {
    pub(super) line: Line,
    /// The transaction number of the last creation or deletion of a node in the directory.
    pub(super) changed: i64,
}

/// The node of a claim.
pub(super) struct OwnNode {
    pub(super) name: String,
    /// When the request was sent that has created or found the node.
    pub(super) sent: Moment,
    /// The transaction number of the creation, if this attempt has created the node.
    pub(super) created: Option<i64>,
}

impl Session {
    /// Reads the nodes of a directory. A missing directory has no nodes.
    pub(super) async fn look(&self, directory: &str) -> Result<Seen, Error> {
        match self.client().get_children(directory).await {
            Ok((children, stat)) => Ok(Seen { line: Line::of_children(children), changed: stat.pzxid }),
            Err(Error::NoNode) => Ok(Seen { line: Line::default(), changed: 0 }),
            Err(error) => Err(error),
        }
    }
}

impl<'a> Site<'a> {
    pub(super) fn new(config: &'a Config, session: &'a Session, claim: &'a Claim) -> Self {
        Self::for_key(config, session, claim, &claim.key)
    }

    /// Returns the site of a claim at one of its keys.
    pub(super) fn for_key(config: &'a Config, session: &'a Session, claim: &'a Claim, key: &Key) -> Self {
        let (directory, mark) = (names::directory(&config.base, key.as_str()), names::mark(claim.owner));
        let prefix = format!("{directory}/{mark}");
        Self { config, session, claim, directory, mark, prefix }
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Reads the nodes of the key. A missing directory has no nodes.
    pub(super) async fn look(&self) -> Result<Seen, Error> {
        self.session.look(&self.directory).await
    }

    /// Reads the nodes. Every earlier request of this session has taken effect before this read, or never will. This
    /// includes requests whose answers were lost with the connection, because the leader refuses late requests of an
    /// old connection.
    pub(super) async fn look_again(&self) -> Result<Seen, Error> {
        let sent = now();
        // Both requests need one round trip, because a session executes its requests in the order in which they are
        // sent.
        let (synced, seen) = tokio::join!(self.session.client().sync(&self.directory), self.look());
        synced?;
        self.session.heard_from_leader(sent);
        seen
    }

    /// Creates the node of the claim and then reads all nodes. This needs one round trip, because a session executes
    /// its requests in the order in which they are sent. If only the inner result is an error, the node exists.
    pub(super) async fn create(
        &self,
        turn: &mut Option<Turn<'_>>,
    ) -> Result<(OwnNode, Result<Seen, Error>), Error> {
        let prefix = self.node_prefix();
        let path = self.path(&prefix);
        let data = record(self.claim);
        let options = self.config.node(CreateMode::EphemeralSequential);
        for _ in 0..TRIES {
            let sent = now();
            let creating = self.session.client().create(&path, data.as_bytes(), &options);
            let looking = self.look();
            // The next claim has its turn after this request is sent, so `sends` is polled last.
            let sends = async { Turn::sent(turn) };
            match tokio::join!(biased; creating, looking, sends) {
                (Ok((stat, number)), looked, ()) => {
                    self.session.prove(sent);
                    let name = format!("{prefix}{number}");
                    return Ok((OwnNode { name, sent, created: Some(stat.czxid) }, looked));
                }
                // The servers delete a container some time after its last node was deleted, possibly between two
                // requests.
                (Err(Error::NoNode), ..) => self.make_directory().await?,
                (Err(error), ..) => return Err(error),
            }
        }
        Err(Error::NoNode)
    }

    /// Returns the name of a node of the claim, without its number.
    pub(super) fn node_prefix(&self) -> String {
        names::prefix(&self.mark, self.claim.mode, self.config.names)
    }

    pub(super) async fn make_directory(&self) -> Result<(), Error> {
        match self.make_directory_in_base().await {
            Err(Error::NoNode) => {
                make_base(self.session.client(), self.config).await?;
                self.make_directory_in_base().await
            }
            made => made,
        }
    }

    async fn make_directory_in_base(&self) -> Result<(), Error> {
        let options = self.config.node(CreateMode::Container);
        // The directory is recorded before the request, because the request may be executed after this future is
        // dropped.
        self.session.made.add(self.directory.clone());
        match self.session.client().create(&self.directory, MADE_HERE, &options).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes a node. Returns whether it existed.
    pub(super) async fn delete(&self, name: &str) -> Result<bool, Error> {
        let sent = now();
        match self.session.client().delete(&self.path(name), None).await {
            Ok(()) => {
                self.session.prove(sent);
                Ok(true)
            }
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn data(&self) -> String {
        let known = self.session.with(|grants| grants.get(&self.prefix).map(Entry::data));
        known.ok().flatten().unwrap_or_else(|| record(self.claim))
    }

    /// Reads the owner record of a node; `None` for a node of another program.
    pub(super) async fn holder(&self, name: &str) -> Result<Option<OwnerRecord>, Error> {
        let path = self.path(name);
        if let Some(own) = self.session.with(|grants| grants.record_of(&path)).ok().flatten() {
            return Ok(Some(own));
        }
        match self.session.client().get_data(&path).await {
            Ok((data, _)) => Ok(read_record(&data)),
            // A node that this user may not read still belongs to a holder.
            Err(Error::NoNode | Error::NoAuth) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Creates the directory of the locks if it is missing. Checks first whether the directory exists, because the user may
/// lack the right to create it.
pub(super) async fn make_base(client: &Client, config: &Config) -> Result<(), Error> {
    if client.check_stat(&config.base).await?.is_none() {
        client.mkdir(&config.base, &config.node(CreateMode::Persistent)).await?;
    }
    Ok(())
}

/// Returns the failure of a claim whose node another process has deleted.
pub(super) fn deleted() -> Failure {
    Failure::new(
        LockErrorKind::Unavailable,
        "somebody deleted the node of this claim while it was being created",
    )
}
