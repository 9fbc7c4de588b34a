//! A claim at all its keys. A claim of several keys gets all of them or none.
//!
//! **Why this is exclusive.** Each key has its own queue, and the claim has a node in every queue. The first node in a
//! queue stays first until it is deleted, because later nodes have larger numbers. So the queues need not be read at
//! the same moment. If each queue was read with the claim's node at its head, the claim holds all keys together, until
//! one of its nodes is deleted or its session ends. No other check is needed. Claims for one key, also claims of
//! Curator and kazoo, find an ordinary holder.
//!
//! **Why all nodes are created in one transaction.** Suppose that two claims created their nodes one by one. Each could
//! find the other claim first at some key, so both would give up, and this could repeat for ever. Transactions are
//! executed in one order. So of two claims, one is before the other in *every* queue that they share, and is not
//! refused because of the other. If an answer is lost, either all nodes exist or none.
//!
//! **Why the queues are read before the transaction.** ZooKeeper has no condition on the children of a node, so a
//! transaction cannot create a node under the condition that there is no other node. The nodes of a refused claim block
//! later claims until they are deleted, even at keys that are free. So no node is created while a key is held. The
//! claim has to delete its nodes again only if another claim arrives between the read and the transaction. At that
//! moment, a claim that only tries one of the keys may be refused although the key is free. No claim is granted by
//! mistake. (A transaction could delete each directory and create it again: it would fail if a directory contains a
//! node. But such a transaction would also delete directories of other programs, and end the watches on them.)
//!
//! **Why there is no deadlock.** The claim is not queued: before the store answers, the claim holds all keys or has
//! left every queue. The library, not the store, waits for several keys. The library waits for one key after the other,
//! with a place in the queue of that key. Then it requests all keys. Every process acquires the keys in the order of
//! their bytes, so the processes cannot wait for each other in a circle. A claim that waits for only one key holds no
//! key while it waits. Another program may acquire several keys one by one in another order (Curator's
//! `InterProcessMultiLock` uses its caller's order). Such a program and this library may wait for each other until one
//! of the two gives up.

use zookeeper_client::{Error, MultiWriteResult};

use super::config::Config;
use super::error::{Failure, source};
use super::places::Site;
use super::session::{Session, now};
use crate::backend::remote::join_all;
use crate::backend::{Claim, FencingToken, Released};

/// The sites of a claim, one for each of its keys.
pub(super) struct ClaimSites<'a> {
    pub(super) session: &'a Session,
    pub(super) claim: &'a Claim,
    /// The claim at each of its keys, in the order of the keys.
    pub(super) sites: Vec<Site<'a>>,
}

impl<'a> ClaimSites<'a> {
    pub(super) fn new(config: &'a Config, session: &'a Session, claim: &'a Claim) -> Self {
        let sites = claim.keys().map(|key| Site::for_key(config, session, claim, key)).collect();
        Self { session, claim, sites }
    }

    /// Runs a call for each key concurrently. The requests of a session are executed in the order in which they are
    /// sent.
    pub(super) fn each<'s, T, F: Future<Output = T> + Send + 's>(
        &'s self,
        call: impl Fn(&'s Site<'a>) -> F,
    ) -> impl Future<Output = Vec<T>> {
        join_all(self.sites.iter().map(call))
    }

    pub(super) async fn release(&self) -> Result<Released, Failure> {
        let answers = self.each(|site| site.release()).await;
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(of_all(&answers))
    }

    /// Returns the one token for all keys; `None` if the claim is not granted. The token is the transaction number of a
    /// change during which the claim held all keys. So it is larger than the token of every earlier holder of any of
    /// the keys.
    pub(super) async fn fence(&self) -> Result<Option<FencingToken>, Failure> {
        loop {
            if let Some(token) = self.known_fence(None)? {
                return Ok(Some(token));
            }
            let Some(paths) = self.paths()? else { return Ok(None) };
            match self.touch(&paths).await {
                Ok(token) => return self.known_fence(token),
                Err(Error::NoNode) => match self.look_for_nodes().await {
                    Ok(true) => {}
                    Ok(false) => return Ok(None),
                    Err(failure) => self.session.recover(failure).await?,
                },
                Err(error) => self.session.recover(error.into()).await?,
            }
        }
    }

    /// Finds the nodes of the claim again after one was missing: a downgrade has renamed it, or another process has
    /// deleted it. Returns whether all are there.
    async fn look_for_nodes(&self) -> Result<bool, Failure> {
        for site in &self.sites {
            let (_, Some(node)) = site.look_for_own(None, false).await? else { return Ok(false) };
            self.session.with(|grants| grants.has_node(&site.prefix, &node))?;
        }
        Ok(true)
    }

    /// Records the token `made` for the holder. Returns the first token that was recorded.
    pub(super) fn known_fence(&self, made: Option<FencingToken>) -> Result<Option<FencingToken>, Failure> {
        let prefixes: Vec<&str> = self.sites.iter().map(|site| site.prefix.as_str()).collect();
        self.session.with(|grants| grants.fence(&prefixes, self.claim.handoffs, made))
    }

    /// Returns the paths of the claim's nodes; `None` if the claim does not hold all keys.
    fn paths(&self) -> Result<Option<Vec<String>>, Failure> {
        let mut paths = Vec::with_capacity(self.sites.len());
        for site in &self.sites {
            let node = site.entry()?.filter(|entry| entry.is_granted()).and_then(|entry| entry.node);
            let Some(node) = node else { return Ok(None) };
            paths.push(site.path(&node));
        }
        Ok(Some(paths))
    }

    /// Writes all nodes again in one transaction. Returns the number of this transaction as a token: it is larger than
    /// all earlier numbers, and the nodes still existed, so the claim held the keys at the time of this change.
    async fn touch(&self, paths: &[String]) -> Result<Option<FencingToken>, Error> {
        let sent = now();
        let mut writes = self.session.client().new_multi_writer();
        for (site, path) in self.sites.iter().zip(paths) {
            writes.add_set_data(path, site.data().as_bytes(), None)?;
        }
        let written = writes.commit().await.map_err(source)?;
        self.session.prove(sent);
        let _ = self.session.with(|grants| {
            for (site, path) in self.sites.iter().zip(paths) {
                grants.told(&site.prefix, path.rsplit('/').next().unwrap_or_default());
            }
        });
        Ok(written.into_iter().find_map(|written| match written {
            MultiWriteResult::SetData { stat } => Some(FencingToken::new(stat.mzxid.cast_unsigned())),
            _ => None,
        }))
    }

    /// Completes when the claim should be attempted again. Waits for the first key that is not free.
    pub(super) async fn changed(&self) {
        if let [site] = &self.sites[..] {
            return site.changed().await;
        }
        for site in &self.sites {
            let Ok(entry) = site.entry() else { return };
            let line = match site.look().await {
                Ok(seen) => seen.line,
                Err(error) => {
                    // After the wait, the claim sends a request in any case.
                    let _ = self.session.recover(error.into()).await;
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
}

/// Returns the answer for all keys, from the answers to their releases.
fn of_all(released: &[Released]) -> Released {
    if released.contains(&Released::Taken) {
        Released::Taken
    } else if released.contains(&Released::Expired) {
        Released::Expired
    } else {
        Released::Released
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
