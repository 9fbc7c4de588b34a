//! A store that records its calls and answers them as scripted. A memory store answers all other calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Grant, Held, Listener, Released, Renew, Renewal,
};
use lock_core::clock::Moment;
use lock_core::key::Key;
use lock_core::strategy::{Contention, Decision, Strategy};
use lock_core::{GrantId, LockError, LockErrorKind, LockInfo, LockManager, Result};
use tokio::time::Instant;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Acquire {
        owner: String,
        fencing: bool,
    },
    Renew {
        ttls: Vec<Duration>,
    },
    Release {
        owner: String,
        keep_for: Option<Duration>,
    },
    Fence,
    /// A wait for a change of the key.
    Wait,
    Inspect,
    Close,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) asked: Vec<(Instant, Asked)>,
    /// The claims of all attempts.
    pub(crate) claims: Vec<Claim>,
    pub(crate) acquire: VecDeque<Result<Attempt>>,
    /// If true, each request is sent twice.
    pub(crate) resends: bool,
    pub(crate) renew: VecDeque<Renewal>,
    pub(crate) release: VecDeque<Result<Released>>,
    pub(crate) fence: VecDeque<Result<FencingToken>>,
    pub(crate) inspect: VecDeque<Result<Option<LockInfo>>>,
    /// The delay of the answer to an inspection.
    pub(crate) inspect_takes: Duration,
    /// The time for which a renewal blocks the thread that sends it.
    pub(crate) renew_blocks: Duration,
    /// The delay of the answer to a renewal.
    pub(crate) renew_takes: Duration,
    /// The delay until a try arrives at the store.
    pub(crate) acquire_takes: Duration,
    /// The delay of the answer to a release.
    pub(crate) release_takes: Duration,
    /// The number of answered releases.
    pub(crate) released: usize,
    /// If true, the notifications of changes are lost.
    pub(crate) loses_changes: bool,
    pub(crate) listeners: Vec<Weak<dyn Listener>>,
}

/// The backend. All clones share the script and the inner store.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    pub(crate) script: Arc<Mutex<Script>>,
    store: Memory,
    capability: Capability,
}

impl Scripted {
    /// Returns a manager and its store. `change` changes the capability of the store.
    pub(crate) fn manager(change: impl FnOnce(&mut Capability)) -> (LockManager, Self) {
        Self::build(change).unwrap()
    }

    /// Like [`manager`](Self::manager), but returns the error if the manager is refused.
    pub(crate) fn build(change: impl FnOnce(&mut Capability)) -> Result<(LockManager, Self)> {
        let store = Memory::new();
        let mut capability = store.capability();
        change(&mut capability);
        let scripted = Self { script: Arc::default(), store, capability };
        Ok((LockManager::builder(scripted.clone()).build()?, scripted))
    }

    /// Returns another manager on the inner memory store, without the script.
    pub(crate) fn stranger(&self) -> LockManager {
        LockManager::builder(self.store.clone()).build().unwrap()
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        // If a test fails while it locks the script, dropping its guards must not fail too.
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current time of the clock for this placement.
    fn now(&self) -> Moment {
        self.capability.placement.clock().now()
    }

    fn ask(&self, asked: Asked) -> MutexGuard<'_, Script> {
        let mut script = self.script();
        script.asked.push((Instant::now(), asked));
        script
    }

    fn ask_for(&self, claim: &Claim) -> Option<Result<Attempt>> {
        let mut script = self.ask(Asked::Acquire { owner: owner(claim), fencing: claim.fencing });
        if script.resends {
            claim.mark_resent();
        }
        script.claims.push(claim.clone());
        script.acquire.pop_front()
    }

    fn all<T>(&self, pick: impl Fn(Instant, &Asked) -> Option<T>) -> Vec<T> {
        self.script().asked.iter().filter_map(|(at, asked)| pick(*at, asked)).collect()
    }

    /// Returns the owners of all tries.
    pub(crate) fn tries(&self) -> Vec<String> {
        self.all(|_, asked| match asked {
            Asked::Acquire { owner, .. } => Some(owner.clone()),
            _ => None,
        })
    }

    /// Returns how many tries and how many waits for a change the store has received.
    pub(crate) fn tries_and_waits(&self) -> (usize, usize) {
        (self.tries().len(), self.asked(&Asked::Wait))
    }

    pub(crate) fn try_times(&self) -> Vec<Instant> {
        self.all(|at, asked| matches!(asked, Asked::Acquire { .. }).then_some(at))
    }

    /// Returns the owner and `keep_for` of all releases.
    pub(crate) fn releases(&self) -> Vec<(String, Option<Duration>)> {
        self.all(|_, asked| match asked {
            Asked::Release { owner, keep_for } => Some((owner.clone(), *keep_for)),
            _ => None,
        })
    }

    /// Returns the time of each release since `start`, in milliseconds.
    pub(crate) fn release_times(&self, start: Instant) -> Vec<u128> {
        self.all(|at, asked| matches!(asked, Asked::Release { .. }).then(|| (at - start).as_millis()))
    }

    /// Returns for each batch of renewals its time, its length, and the ttl of its first renewal.
    pub(crate) fn renewals(&self) -> Vec<(Instant, usize, Duration)> {
        self.all(|at, asked| match asked {
            Asked::Renew { ttls } => Some((at, ttls.len(), ttls[0])),
            _ => None,
        })
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.script().claims.clone()
    }

    /// Frees only `key` of the first claim, as if the key were deleted.
    pub(crate) async fn forget(&self, key: &Key) {
        let mut claim = self.claims().remove(0);
        (claim.key, claim.more) = (key.clone(), [].into());
        self.store.release(&claim, None).await.unwrap();
    }

    /// Returns the first listener that is still alive.
    pub(crate) fn listener(&self) -> Arc<dyn Listener> {
        self.script().listeners.iter().find_map(Weak::upgrade).expect("the manager lives")
    }

    /// Reports to all listeners that notifications were lost, as after a new connection.
    pub(crate) fn reconnect(&self) {
        let listeners: Vec<_> = self.script().listeners.iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| listener.reconnected());
    }

    pub(crate) fn asked(&self, what: &Asked) -> usize {
        self.all(|_, asked| (asked == what).then_some(())).len()
    }
}

fn owner(claim: &Claim) -> String {
    claim.owner.token().as_str().to_owned()
}

impl Backend for Scripted {
    fn capability(&self) -> Capability {
        self.capability
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let told = self.ask_for(claim);
        let takes = self.script().acquire_takes;
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        match told {
            Some(answer) => answer,
            None => match self.store.acquire(claim, ask).await? {
                Attempt::Granted(grant) => Ok(Attempt::Granted(Grant { sent: self.now(), ..grant })),
                Attempt::Held(held) => {
                    let place = held.queued_at.map(|_| self.now());
                    Ok(Attempt::Held(Held { queued_at: place, ..held }))
                }
            },
        }
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let ttls = batch.iter().map(|renew| renew.ttl).collect();
        let (told, blocks, takes) = {
            let mut script = self.ask(Asked::Renew { ttls });
            (script.renew.pop_front(), script.renew_blocks, script.renew_takes)
        };
        std::thread::sleep(blocks);
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        match told {
            Some(answer) => vec![answer],
            None => {
                let again = |answer| match answer {
                    Renewal::Renewed { lease, waiters, .. } => {
                        Renewal::Renewed { sent: self.now(), lease, waiters }
                    }
                    other => other,
                };
                self.store.renew(batch).await.into_iter().map(again).collect()
            }
        }
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let (told, takes) = {
            let mut script = self.ask(Asked::Release { owner: owner(claim), keep_for });
            (script.release.pop_front(), script.release_takes)
        };
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        let answer = match told {
            Some(answer) => answer?,
            None => self.store.release(claim, keep_for).await?,
        };
        self.script().released += 1;
        Ok(answer)
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let told = self.ask(Asked::Fence).fence.pop_front();
        match told {
            Some(answer) => answer,
            None => self.store.fence(claim).await,
        }
    }

    fn attach(
        &self,
        _process: u128,
        listener: Weak<dyn Listener>,
        _background: Option<&tokio::runtime::Handle>,
    ) {
        self.script().listeners.push(listener);
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        let (told, takes) = {
            let mut script = self.ask(Asked::Inspect);
            (script.inspect.pop_front(), script.inspect_takes)
        };
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        match told {
            Some(answer) => answer,
            None => self.store.inspect(key).await,
        }
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.store.force_release(key, id).await
    }

    async fn changed(&self, claim: &Claim) {
        let lost = self.ask(Asked::Wait).loses_changes;
        if lost {
            std::future::pending::<()>().await;
        }
        self.store.changed(claim).await;
    }

    async fn close(&self) {
        drop(self.ask(Asked::Close));
    }
}

/// Returns an error that does not show whether the store executed the request.
pub(crate) fn no_answer() -> LockError {
    LockError::new(LockErrorKind::Unavailable, "no answer")
}

/// A strategy that tries again after a fixed pause, up to a limit. Its first pause is short, as in the strategies of
/// the library.
#[derive(Debug)]
pub(crate) struct Every(pub(crate) Duration, pub(crate) Duration);

impl Strategy for Every {
    fn decide(&self, contention: &Contention) -> Decision {
        let left = self.1.saturating_sub(contention.waited);
        let pause = if contention.attempts <= 1 { self.0.min(Duration::from_millis(1)) } else { self.0 };
        if left.is_zero() { Decision::Fail } else { Decision::RetryAfter(pause.min(left)) }
    }

    fn name(&self) -> std::borrow::Cow<'static, str> {
        "every".into()
    }
}
