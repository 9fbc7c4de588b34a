//! Implements the calls of the [`Backend`] contract for ZooKeeper.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::claim_sites::ClaimSites;
use super::error::Failure;
use super::names;
use super::places::Site;
use super::process::Servers;
use super::session::now;
use super::store::ZooKeeper;
use crate::backend::remote::deadline;
use crate::backend::remote::session_keeper::Session as _;
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Finding, GrantId, LeaseScope, Listed,
    Listener, LockInfo, Ping, Released, Renew, Renewal, Waiting,
};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::key::Key;

impl Backend for ZooKeeper {
    fn capability(&self) -> Capability {
        Capability {
            shared: true,
            permits: true,
            several: true,
            lists: true,
            marks_sent: true,
            waiting: Waiting::Watch { waiter_lease: self.session, tells_holder: false },
            fencing: Fencing::Counter,
            lease: LeaseScope::Session,
            // The servers free the key of a dead process only when its session is over.
            min_ttl: self.session,
            ttl_advice: Some("a lock lasts as long as its session: connect with a shorter `session_timeout`"),
            ..Capability::exclusive("zookeeper")
        }
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.capability().check(claim)?;
        let process = self.processes.attached(claim)?;
        let attempt = async {
            let session = process.ready().await?;
            ClaimSites::new(&self.config, &session, claim).attempt(ask).await
        };
        let deadline = deadline::of_call(self.config.timeout, claim.ttl);
        let answer = match timeout(deadline, attempt).await {
            Ok(answer) => answer,
            // A claim that was never sent has no node in the store.
            Err(_) if claim.is_sent() => Err(Failure::no_answer(deadline)),
            Err(_) => Err(process.failure()),
        };
        answer.map_err(|failure| self.error(&failure).or_key(&claim.key))
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        batch.iter().map(|Renew { claim, .. }| self.renew_one(claim)).collect()
    }

    async fn release(&self, claim: &Claim, _keep_for: Option<Duration>) -> Result<Released> {
        let process = self.processes.attached(claim)?;
        let release = async {
            loop {
                let session = process.ready().await?;
                let released = ClaimSites::new(&self.config, &session, claim).release().await;
                // If this session has ended, the release is repeated in the next session, which finds the state of the
                // grant.
                if released.is_ok() || !session.is_over() {
                    return released;
                }
            }
        };
        let deadline = deadline::of_release(self.config.timeout, claim.ttl);
        let answer = timeout(deadline, release).await;
        let answer = answer.unwrap_or_else(|_| Err(Failure::no_answer(deadline)));
        answer.map_err(|failure| self.error(&failure).with_key(&claim.key))
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let lost = || LockError::lost(&claim.key, LossReason::Taken);
        let process = self.processes.attached(claim)?;
        let session = process.current().ok_or_else(lost)?;
        let deadline = deadline::of_call(self.config.timeout, claim.ttl);
        let keys = ClaimSites::new(&self.config, &session, claim);
        let made =
            timeout(deadline, keys.fence()).await.unwrap_or_else(|_| Err(Failure::no_answer(deadline)));
        made.map_err(|failure| self.error(&failure).with_key(&claim.key))?.ok_or_else(lost)
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let (Ok(process), deadline) =
            (self.processes.attached(claim), deadline::of_call(self.config.timeout, claim.ttl))
        else {
            return Renewal::NotOwned;
        };
        let Some(session) = process.current() else { return Renewal::NotOwned };
        let site = Site::new(&self.config, &session, claim);
        let done = timeout(deadline, site.downgrade()).await;
        match done.unwrap_or_else(|_| Err(Failure::no_answer(deadline))) {
            Ok(true) => self.renew_one(claim),
            Ok(false) => Renewal::NotOwned,
            Err(failure) => Renewal::Unknown(self.error(&failure).with_key(&claim.key)),
        }
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.list_all(prefix, foreign, limit).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.within(self.look_at(key)).await.map_err(|error| error.with_key(key))
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.within(self.take_away(key, id)).await.map_err(|error| error.with_key(key))
    }

    async fn ping(&self) -> Result<Ping> {
        let began = now();
        self.within(self.any_session()).await?;
        Ok(Ping::new(now().since(began)))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.examine().await
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        let servers = || Servers { config: Arc::clone(&self.config), promised: self.session };
        self.processes.attach(process, listener, background, servers);
    }

    async fn changed(&self, claim: &Claim) {
        let Ok(process) = self.processes.attached(claim) else { return std::future::pending().await };
        match process.ready().await {
            Ok(session) => ClaimSites::new(&self.config, &session, claim).changed().await,
            Err(_) => std::future::pending().await,
        }
    }

    async fn others_wait(&self, claim: &Claim) -> Result<bool> {
        let lost = || LockError::lost(&claim.key, LossReason::SessionEnded);
        let session = self.processes.attached(claim)?.current().ok_or_else(lost)?;
        let site = Site::new(&self.config, &session, claim);
        let look = async { Ok(site.others_wait().await?) };
        self.within(look).await.map_err(|error| error.with_key(&claim.key))
    }

    async fn close(&self) {
        self.end().await;
    }
}

impl ZooKeeper {
    /// Runs the request of an operator within its deadline.
    pub(super) async fn within<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T> {
        let deadline = self.config.timeout;
        let answer = match timeout(deadline, call).await {
            Ok(answer) => answer,
            Err(_) => {
                let detail = format!("the servers did not answer all that was asked within {deadline:?}");
                Err(Failure::new(LockErrorKind::Unavailable, detail))
            }
        };
        answer.map_err(|failure| self.error(&failure))
    }

    /// Renews one claim without a request to the servers: a grant lives as long as the session, except if its node is
    /// deleted.
    fn renew_one(&self, claim: &Claim) -> Renewal {
        let Some(process) = self.processes.get(claim.owner.process()) else { return Renewal::NotOwned };
        // The owners are notified separately when a session ends.
        let Some(session) = process.current() else {
            return Renewal::Unknown(self.error(&process.failure()).with_key(&claim.key));
        };
        let mark = names::mark(claim.owner);
        let sent = now();
        let is_silent = session.is_silent(sent);
        for key in claim.keys() {
            let directory = names::directory(&self.config.base, key.as_str());
            let prefix = format!("{directory}/{mark}");
            if !is_silent {
                // A watch costs a request, so only a lock that is held until its first renewal gets a watch.
                process.watch(&session, &prefix, &directory);
            }
            let granted = session.with(|grants| grants.get(&prefix).is_some_and(|entry| entry.is_granted()));
            if !granted.unwrap_or(false) {
                return Renewal::NotOwned;
            }
        }
        let lease = session.certain(sent);
        if is_silent || lease.is_zero() {
            let failure = Failure::new(LockErrorKind::Unavailable, "the servers are silent");
            return Renewal::Unknown(self.error(&failure).with_key(&claim.key));
        }
        Renewal::Renewed { sent, lease, waiters: None }
    }
}
