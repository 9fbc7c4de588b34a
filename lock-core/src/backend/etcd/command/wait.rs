//! Waits for the turn of a claim.
//!
//! For each key, a process has one watch. This watch reports every change of the key's queue, and updates a
//! [copy](QueueCopy) of the queue that all waiters of the process share.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::backend::Claim;
use crate::backend::etcd::entries::{Id, Lease};
use crate::backend::etcd::error::{Failure, of_status, unexpected};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::Entry;
use crate::backend::etcd::link::{Events, WATCH};
use crate::backend::etcd::proto::{WatchRequest, WatchResponse};
use crate::backend::etcd::session::{now, oldest};
use crate::backend::etcd::store::Store;
use crate::backend::remote::queue_copy::{CopyUse, QueueCopy};
use crate::key::Key;

/// The interval at which the leases of the waiters are checked. This interval is much shorter than the shortest lease
/// of etcd.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// The number of checks of the leases after which the queue is read again, in case the watch does not report a change.
const BETWEEN_READS: u32 = 4;

/// The pause before an ended watch is started again.
const AGAIN: Duration = Duration::from_millis(100);

impl Store {
    /// Completes when the claim should be attempted again.
    pub(in super::super) async fn changed(self: &Arc<Self>, claim: &Claim) {
        let key = match claim.more.is_empty() {
            true => Some(&claim.key),
            false => self.first_taken(claim).await,
        };
        let Some(key) = key else { return };
        let (copy, id) = (self.copy_of(key, claim), Id::new(key, claim.owner));
        self.entries.change(&id, |mine| mine.asked = now());
        // If the watch fails, the claim is attempted again, but not in a tight loop.
        if !copy.is_known(self.timeout()).await {
            return sleep(AGAIN).await;
        }
        match self.entries.get(&id).map(|mine| (mine.stored, mine.created)) {
            Some((stored, Some(created))) => copy.served(&stored, created).await,
            _ => copy.admits(claim.mode).await,
        }
        if copy.look(|_| ()).is_none() {
            sleep(AGAIN).await;
        }
    }

    /// Returns the first key that is not free for a claim of several keys.
    async fn first_taken<'c>(&self, claim: &'c Claim) -> Option<&'c Key> {
        let Ok(lines) = self.read_all(claim.keys()).await else { return std::future::pending().await };
        let mut keys = claim.keys().zip(&lines);
        let is_free = |line: &crate::backend::etcd::line::Line| {
            line.held_by(claim.owner).is_some() || line.queue.admits(claim.mode)
        };
        keys.find(|(_, line)| !is_free(line)).map(|(key, _)| key)
    }

    pub(super) fn copy_of(self: &Arc<Self>, key: &Key, claim: &Claim) -> CopyUse<Entry> {
        let watch = |copy: Arc<QueueCopy<Entry>>| {
            let (store, key) = (Arc::clone(self), key.clone());
            let watches = {
                let copy = Arc::clone(&copy);
                async move {
                    loop {
                        // The reason for which a watch has ended does not matter, because the next watch reads the
                        // queue again.
                        let _ = store.watch(&key, &copy).await;
                        copy.lost();
                        sleep(AGAIN).await;
                    }
                }
            };
            self.runtime_of(claim).spawn(copy.keep(watches));
        };
        self.copies.copy_of(&keyspace::line(key).0, watch)
    }

    /// Returns the runtime of the manager that made `claim`. The application cannot block this runtime.
    pub(super) fn runtime_of(&self, claim: &Claim) -> Handle {
        let runtimes = self.runtimes.lock();
        let own = runtimes.iter().rev().find(|(process, _)| *process == claim.owner.process());
        own.map_or_else(Handle::current, |(_, runtime)| runtime.clone())
    }

    /// Keeps a copy up to date until the watch or a read fails.
    async fn watch(&self, key: &Key, copy: &QueueCopy<Entry>) -> Result<(), Failure> {
        let (from, to) = keyspace::line(key);
        let connection = self.connections.get().await?;
        let token = connection.token();
        let mut events = connection.stream(WATCH, WatchRequest::create(from, to), token).await?;
        // The watch reports all changes after its creation. The read returns the earlier changes.
        while !next(&mut events).await?.created {}
        copy.read(self.connections.within(self.timeout(), self.read(key)).await?);
        let told = async {
            loop {
                let answer = next(&mut events).await?;
                copy.update(|line| line.apply(answer.events));
            }
        };
        tokio::select! {
            ended = told => ended,
            ended = self.look_after(key, copy) => ended,
        }
    }

    /// Keeps the entries of the waiters alive, and reads the queue from time to time.
    async fn look_after(&self, key: &Key, copy: &QueueCopy<Entry>) -> Result<(), Failure> {
        let (mut signs, mut refused) = (0, None);
        loop {
            sleep(SIGN_OF_LIFE).await;
            signs += 1;
            let waiting = copy.waiting();
            // If this fails, the next check follows soon.
            let _ = self.connections.within(self.timeout(), self.keep_waiters(&waiting)).await;
            if signs % BETWEEN_READS == 0 && !waiting.is_empty() {
                let newer = copy.read(self.connections.within(self.timeout(), self.read(key)).await?);
                if newer.is_some() && newer == refused {
                    // A cluster that was restored from a backup has smaller revisions, and the old watch may report no
                    // changes. So another watch is started.
                    return Err(unexpected("a revision that grows"));
                }
                refused = newer;
            }
        }
    }

    async fn keep_waiters(&self, names: &[Vec<u8>]) -> Result<(), Failure> {
        let mut waiting = self.entries.named(names);
        waiting.retain(|(_, mine)| mine.created.is_some() && !mine.holds && mine.lease.session().is_some());
        let (retired, fine): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(_, mine)| mine.lease.session().is_some_and(|session| session.is_retired()));
        let sessions = fine.iter().filter_map(|(_, mine)| mine.lease.session()).collect();
        for (_, kept) in self.keep_all(sessions, oldest).await {
            kept?;
        }
        for (id, mine) in retired {
            let Some(session) = mine.lease.session() else { continue };
            let lease = Lease::Shared(self.session(session.ttl).await?);
            self.bind(std::slice::from_ref(&id), std::slice::from_ref(&mine), &lease, None).await?;
        }
        Ok(())
    }
}

async fn next(events: &mut Events<WatchRequest, WatchResponse>) -> Result<WatchResponse, Failure> {
    match events.message().await {
        Ok(Some(answer)) if !answer.canceled => Ok(answer),
        Ok(_) => Err(unexpected("the end of a watch")),
        Err(status) => Err(of_status(&status)),
    }
}
