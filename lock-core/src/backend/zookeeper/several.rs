//! A claim of several keys: all of them or none.
//!
//! **Why this is exclusive.** Each key has its own line, and the claim has a node in every one of them. The first node
//! in a line stays first until it is deleted: later nodes have larger numbers. So the lines need not be read at the
//! same moment. Once each of them was seen with the claim's node at its head, the claim holds all of them together,
//! until a node of it is deleted or its session ends. Nothing else has to be compared, and claims for one key, of
//! Curator and kazoo too, see an ordinary holder.
//!
//! **Why all nodes are created in one transaction.** Two claims that took the keys one by one, each in its own order,
//! could both find the other one first at some key, both give up, and do so again for ever. Transactions are executed in
//! one order. So of two claims, one is before the other in *every* line that they share, and it is not refused because
//! of the other. A lost answer leaves all nodes or none.
//!
//! **Why the lines are read before that.** ZooKeeper has no condition on the children of a node, so a transaction
//! cannot create a node only if there is no other. A node that is created after others blocks later claims until it is
//! deleted, even at keys that are free. So nothing is created while a key is held. Only a claim that meets another one
//! between the read and the transaction has to delete its nodes again; in that moment, a claim that only tries one of
//! the keys may be refused although it is free. No claim is granted by mistake. (A transaction that deletes each
//! directory and makes it anew would fail if there is a node. It would also remove directories of others, and the
//! watches on them.)
//!
//! **Why there is no deadlock.** The claim is not queued: it holds all keys or leaves every line before it answers. The
//! library, not the store, waits for several keys: for one key after the other, with a place in its line, and then it
//! requests all of them. Every process takes the keys in the order of their bytes, so there is no circle among them;
//! and a claim that waits for one key only holds none while it waits. Another program that takes several keys one by
//! one in another order (Curator's `InterProcessMultiLock` uses its caller's order) may wait for us while we wait for
//! it, until one of the two gives up.

use zookeeper_client::{Error, MultiWriteError, MultiWriteResult};

use super::config::Config;
use super::error::Failure;
use super::places::Site;
use super::session::{Session, now};
use crate::backend::remote::join_all;
use crate::backend::{BoxFuture, Claim, FencingToken, Released};

/// One claim of several keys in one session.
pub(super) struct Several<'a> {
    pub(super) session: &'a Session,
    pub(super) claim: &'a Claim,
    /// One for each key, in their order.
    pub(super) sites: Vec<Site<'a>>,
}

impl<'a> Several<'a> {
    pub(super) fn new(config: &'a Config, session: &'a Session, claim: &'a Claim) -> Self {
        let sites = claim.keys().map(|key| Site::for_key(config, session, claim, key)).collect();
        Self { session, claim, sites }
    }

    /// Runs a call for each key concurrently. The requests of a session are executed in the order in which they are
    /// sent.
    pub(super) async fn each<'s, T>(&'s self, call: impl Fn(&'s Site<'a>) -> BoxFuture<'s, T>) -> Vec<T> {
        join_all(self.sites.iter().map(call).collect()).await
    }

    /// Frees every key, and leaves every line.
    pub(super) async fn release(&self) -> Result<Released, Failure> {
        let answers = self.each(|site| Box::pin(site.release())).await;
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(of_all(&answers))
    }

    /// Returns the one token for all keys; `None` if the claim is not granted. It is the number of a change at which
    /// the claim held all of them, so it is larger than the tokens of every earlier holder of any of the keys.
    pub(super) async fn fence(&self) -> Result<Option<FencingToken>, Failure> {
        loop {
            if let Some(token) = self.known_fence(None)? {
                return Ok(Some(token));
            }
            let Some(paths) = self.granted()? else { return Ok(None) };
            match self.touch(&paths).await {
                Ok(token) => return self.known_fence(token),
                // One of the nodes was deleted.
                Err(Error::NoNode) => return Ok(None),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// Notes the token `made` for the holder, and returns the first one that was noted.
    pub(super) fn known_fence(&self, made: Option<FencingToken>) -> Result<Option<FencingToken>, Failure> {
        let prefixes: Vec<&str> = self.sites.iter().map(|site| site.prefix.as_str()).collect();
        self.session.with(|grants| grants.fence(&prefixes, self.claim.handoffs, made))
    }

    /// Returns the paths of the nodes of the holder; `None` if it does not hold all keys.
    fn granted(&self) -> Result<Option<Vec<String>>, Failure> {
        let mut paths = Vec::with_capacity(self.sites.len());
        for site in &self.sites {
            let node = site.entry()?.filter(|entry| entry.granted).and_then(|entry| entry.node);
            let Some(node) = node else { return Ok(None) };
            paths.push(site.path(&node));
        }
        Ok(Some(paths))
    }

    /// Writes all nodes again in one transaction, which has one number.
    async fn touch(&self, paths: &[String]) -> Result<Option<FencingToken>, Error> {
        let sent = now();
        let mut writes = self.session.client().new_multi_writer();
        for (site, path) in self.sites.iter().zip(paths) {
            writes.add_set_data(path, site.data().as_bytes(), None)?;
        }
        let written = writes.commit().await.map_err(source)?;
        self.session.prove(sent);
        Ok(written.into_iter().find_map(|written| match written {
            MultiWriteResult::SetData { stat } => Some(FencingToken::new(stat.mzxid.cast_unsigned())),
            _ => None,
        }))
    }

    /// Completes when another attempt makes sense: waits for the first key that is not free.
    pub(super) async fn changed(&self) {
        for site in &self.sites {
            let Ok(entry) = site.entry() else { return };
            let line = match site.look().await {
                Ok(seen) => seen.line,
                Err(error) => {
                    // However the wait ends, the claim sends a request.
                    let _ = site.recover(error).await;
                    return;
                }
            };
            let at = entry.and_then(|entry| entry.node).and_then(|node| line.place_named(&node));
            let is_free = at.map_or_else(|| line.admits(self.claim.mode), |at| line.holds(at));
            if !is_free {
                return site.changed().await;
            }
        }
    }

    /// Recovers as for each of the keys.
    pub(super) async fn recover(&self, error: Error) -> Result<(), Failure> {
        match self.sites.first() {
            Some(site) => site.recover(error).await,
            None => Ok(()),
        }
    }
}

/// Returns the answer to a release of all keys.
fn of_all(released: &[Released]) -> Released {
    if released.contains(&Released::Taken) {
        Released::Taken
    } else if released.contains(&Released::Expired) {
        Released::Expired
    } else {
        Released::Released
    }
}

pub(super) fn source(error: MultiWriteError) -> Error {
    match error {
        MultiWriteError::RequestFailed { source } | MultiWriteError::OperationFailed { source, .. } => source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_that_was_not_there_is_said() {
        use Released::{Expired, Released as Freed, Taken};
        for (released, expected) in [
            ([Freed, Freed], Freed),
            ([Freed, Expired], Expired),
            ([Expired, Taken], Taken),
            ([Taken, Freed], Taken),
        ] {
            assert_eq!(of_all(&released), expected, "{released:?}");
        }
    }
}
