//! Lists the holders of keys, and releases locks by force.

use std::sync::Arc;

use zookeeper_client::Error;

use super::error::Failure;
use super::line::{Line, Place};
use super::names;
use super::record::{read_granted, read_record};
use super::session::Session;
use super::store::ZooKeeper;
use crate::backend::remote::join_all;
use crate::backend::{GrantId, HOLDERS_TOLD, HolderInfo, Listed, LockInfo, WAITERS_TOLD, WaiterInfo};
use crate::error::{self, LockErrorKind, LossReason};
use crate::key::Key;

/// The number of keys that are read at once.
const AT_ONCE: usize = 512;

impl ZooKeeper {
    /// Lists held keys. The read of the names has the time limit of one call, and so has the read of each batch of
    /// keys. One limit for all reads could be too short: there may be very many directories, because a key that was
    /// used a moment ago may still have one.
    pub(super) async fn list_all(&self, prefix: &str, foreign: bool, limit: usize) -> error::Result<Listed> {
        let (session, keys) = self.within(self.keys(prefix)).await?;
        let mut locks = Vec::new();
        for keys in keys.chunks(AT_ONCE) {
            locks.extend(self.within(self.infos(&session, keys, foreign)).await?);
            if locks.len() > limit {
                break;
            }
        }
        Ok(Listed::new(locks, limit))
    }

    /// Returns a session, and the sorted keys that begin with `prefix` and have a directory.
    async fn keys(&self, prefix: &str) -> Result<(Arc<Session>, Vec<String>), Failure> {
        let session = self.any_session().await?;
        let mut keys: Vec<String> = match session.client().list_children(&self.config.base).await {
            Ok(children) => children.iter().filter_map(|name| names::key_of(name)).collect(),
            Err(Error::NoNode) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        keys.retain(|key| key.starts_with(prefix));
        keys.sort_unstable();
        Ok((session, keys))
    }

    /// Returns the descriptions of the keys that have a holder to show.
    async fn infos(
        &self,
        session: &Session,
        keys: &[String],
        foreign: bool,
    ) -> Result<Vec<LockInfo>, Failure> {
        let looks = keys.iter().map(|key| self.info(session, key, foreign));
        let mut locks = Vec::new();
        for lock in join_all(looks).await {
            match lock {
                Ok(lock) => locks.extend(lock),
                // Another user has denied access to the directory of this key.
                Err(Error::NoAuth) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(locks)
    }

    pub(super) async fn look_at(&self, key: &Key) -> Result<Option<LockInfo>, Failure> {
        let session = self.any_session().await?;
        Ok(self.info(&session, key.as_str(), true).await?)
    }

    /// Deletes the node of a grant. Returns whether there was such a grant.
    pub(super) async fn take_away(&self, key: &Key, id: &GrantId) -> Result<bool, Failure> {
        let session = self.any_session().await?;
        let directory = names::directory(&self.config.base, key.as_str());
        loop {
            let line = session.look(&directory).await?.line;
            let mut found = None;
            for holder in line.holders() {
                let look = Look { session: &session, directory: &directory };
                let told = look.id(holder).await?;
                if told.as_ref() == Some(id) {
                    found = Some(holder.name.clone());
                    break;
                }
            }
            let Some(node) = found else { return Ok(false) };
            let path = format!("{directory}/{node}");
            match session.client().delete(&path, None).await {
                Ok(()) => {
                    self.notify_holder(&path, LossReason::Forced);
                    return Ok(true);
                }
                // The holder has released the key, or has become a reader.
                Err(Error::NoNode) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Notifies the manager whose grant has the node at `path`, if that manager is attached to this store.
    fn notify_holder(&self, path: &str, reason: LossReason) {
        for (_, process) in self.processes.all() {
            if let Some(session) = process.current() {
                process.lost(&session, path, reason);
            }
        }
    }

    /// Returns the session of any manager. The servers give the same answers in each session.
    pub(super) async fn any_session(&self) -> Result<Arc<Session>, Failure> {
        let all = self.processes.all();
        let live = || all.iter().map(|(_, process)| process).filter(|process| !process.is_gone());
        let process = live().find(|process| process.current().is_some()).or_else(|| live().next());
        let Some(process) = process else {
            let detail = "the store is closed, or no manager is attached to it";
            return Err(Failure::new(LockErrorKind::Unavailable, detail).permanent());
        };
        let session = process.ready().await?;
        // After this request, an answer contains all earlier changes.
        session.client().sync("/").await?;
        Ok(session)
    }

    /// Returns the description of a key, or `None` if there is no holder to show.
    async fn info(&self, session: &Session, key: &str, foreign: bool) -> Result<Option<LockInfo>, Error> {
        let directory = names::directory(&self.config.base, key);
        let look = Look { session, directory: &directory };
        look.info(key, foreign).await
    }
}

struct Look<'a> {
    session: &'a Session,
    directory: &'a str,
}

impl Look<'_> {
    async fn info(&self, key: &str, foreign: bool) -> Result<Option<LockInfo>, Error> {
        loop {
            let line = self.session.look(self.directory).await?.line;
            let holders = line.holders();
            let Some(first) = holders.first() else { return Ok(None) };
            let told = holders.iter().take(HOLDERS_TOLD).map(|place| self.holder(place));
            let mut infos = Vec::new();
            for info in join_all(told).await {
                infos.extend(info?);
            }
            // All holders have released the key since the read, and other claims may hold the key now.
            if infos.is_empty() {
                continue;
            }
            if !foreign && infos.iter().all(|info| info.record.is_none()) {
                return Ok(None);
            }
            let info = LockInfo::new(key, first.mode, infos).with_holding(holders.len());
            return Ok(Some(info.with_waiters(line.waiters().len(), self.waiters(&line).await?)));
        }
    }

    /// Returns the descriptions of the first waiters.
    async fn waiters(&self, line: &Line) -> Result<Vec<WaiterInfo>, Error> {
        let first = line.waiters().iter().take(WAITERS_TOLD).map(|place| self.waiter(place));
        join_all(first).await.into_iter().collect()
    }

    /// Returns the description of a holder, or `None` if it has released the key.
    async fn holder(&self, place: &Place) -> Result<Option<HolderInfo>, Error> {
        let (record, granted) = match self.session.client().get_data(&self.path(place)).await {
            Ok((data, _)) => (read_record(&data), read_granted(&data)),
            // A node that this user may not read still belongs to a holder.
            Err(Error::NoAuth) => (None, None),
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(error),
        };
        // The grant lives as long as its session, so its remaining time is unknown.
        let id = self.id(place).await?;
        let granted = granted.filter(|_| record.is_some());
        Ok(id.map(|id| HolderInfo::new(id, record, None, false).with_held_since(granted)))
    }

    async fn waiter(&self, place: &Place) -> Result<WaiterInfo, Error> {
        let record = match self.session.client().get_data(&self.path(place)).await {
            Ok((data, _)) => read_record(&data),
            Err(Error::NoAuth | Error::NoNode) => None,
            Err(error) => return Err(error),
        };
        Ok(WaiterInfo::new(record, place.mode))
    }

    /// Returns the id of a grant; `None` if it was released. A mark belongs to one grant, even if the node is renamed.
    /// The name of a node without a mark may recur, but never with the same creation number.
    async fn id(&self, place: &Place) -> Result<Option<GrantId>, Error> {
        if let Some(mark) = names::mark_of(&place.name) {
            return Ok(Some(GrantId::digest(mark)));
        }
        let path = self.path(place);
        let stat = self.session.client().check_stat(&path).await?;
        Ok(stat.map(|stat| GrantId::digest(format!("{path} {}", stat.czxid))))
    }

    fn path(&self, place: &Place) -> String {
        format!("{}/{}", self.directory, place.name)
    }
}
