//! What is asked for: key, kind, ttl, strategy and options, validated once.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{self, Plan};
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::body::{self, OnLost};
use crate::guard::{LockGuard, LockHandle};
use crate::hub::Hub;
use crate::key::{IntoKey, Key};
use crate::kind::Kind;
use crate::lease::LeaseOptions;
use crate::strategy::{self, Backoff, Strategy};

/// A lock that is about to be asked for. Made by [`LockManager::lock`](crate::LockManager::lock) and its siblings;
/// does nothing until [`acquire`](Self::acquire), [`try_acquire`](Self::try_acquire), [`run`](Self::run) or
/// [`run_with`](Self::run_with).
///
/// What is not said here comes from the [profile](Self::profile), then from the manager. A request of a task that holds
/// the key already enters that grant again, on the terms of the grant: its own ttl, ceilings and label do not count.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
/// use lock_core::{LockManager, strategy};
///
/// let locks = LockManager::in_memory();
/// let guard = locks
///     .lock("order:42")
///     .ttl(Duration::from_millis(500))
///     .strategy(strategy::retry().within(Duration::from_millis(100)))
///     .label("pay")
///     .acquire()
///     .await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until `acquire`, `try_acquire`, `run` or `run_with`"]
pub struct LockRequest {
    hub: Arc<Hub>,
    key: Result<Key, BadKey>,
    more: Arc<[Key]>,
    kind: Kind,
    ttl: Option<Duration>,
    strategy: Option<Arc<dyn Strategy>>,
    wait: Option<Duration>,
    backoff: Option<Backoff>,
    renew: Option<bool>,
    fencing: bool,
    reentrant: bool,
    renew_every: Option<Duration>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    max_waiters: Option<usize>,
    label: Option<Cow<'static, str>>,
    template: Option<Cow<'static, str>>,
    profile: Option<Cow<'static, str>>,
    on_lost: OnLost,
}

/// What is asked for, and of the rest what was said and not left to the defaults.
impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("LockRequest");
        match &self.key {
            Ok(key) => text.field(
                "key",
                &self.hub.engine.observer.redact_key(key, self.template.as_deref()).to_string(),
            ),
            Err(bad) => text.field("key", &format_args!("{:?}", bad.kind)),
        };
        if !self.more.is_empty() {
            text.field("more_keys", &self.more.len());
        }
        text.field("kind", &self.kind);
        if let Some(ttl) = &self.ttl {
            text.field("ttl", ttl);
        }
        if let Some(strategy) = &self.strategy {
            text.field("strategy", &strategy.name());
        }
        if let Some(wait) = &self.wait {
            text.field("wait", wait);
        }
        text.finish()
    }
}

/// Why a key was refused; kept until the request is made.
#[derive(Debug, Clone)]
struct BadKey {
    kind: LockErrorKind,
    text: Arc<str>,
}

impl LockRequest {
    pub(crate) fn new(hub: Arc<Hub>, key: impl IntoKey, kind: Kind) -> Self {
        let key = key.into_key().map(|key| key.in_namespace(&hub.engine.namespace));
        Self::with_key(hub, key, Arc::default(), kind)
    }

    /// A request for all of `keys`, in one order and none twice, so that two requests never wait for each other.
    pub(crate) fn all<K: IntoKey>(hub: Arc<Hub>, keys: impl IntoIterator<Item = K>) -> Self {
        let keys: Result<Vec<Key>> = keys
            .into_iter()
            .map(|key| key.into_key().map(|key| key.in_namespace(&hub.engine.namespace)))
            .collect();
        let (key, more) = match keys {
            Ok(mut keys) => {
                keys.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
                keys.dedup();
                let mut keys = keys.into_iter();
                let none = || {
                    LockError::new(LockErrorKind::InvalidRequest, "`all` was given no key: give at least one")
                };
                (keys.next().ok_or_else(none), keys.collect())
            }
            Err(error) => (Err(error), Arc::default()),
        };
        Self::with_key(hub, key, more, Kind::Reentrant)
    }

    fn with_key(hub: Arc<Hub>, key: Result<Key>, more: Arc<[Key]>, kind: Kind) -> Self {
        Self {
            hub,
            key: key.map_err(|error| BadKey { kind: error.kind(), text: error.detail().into() }),
            more,
            kind,
            ttl: None,
            strategy: None,
            wait: None,
            backoff: None,
            renew: None,
            fencing: false,
            reentrant: true,
            renew_every: None,
            max_hold: None,
            min_hold: None,
            max_waiters: None,
            label: None,
            template: None,
            profile: None,
            on_lost: OnLost::default(),
        }
    }

    /// The lease: how long a holder that crashed keeps others out. Renewed every third of it while the lock is held.
    /// Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What to do when the key is held. Default: the manager's, [`strategy::retry()`].
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// How long a bounded strategy waits for other holders, in place of the strategy's own limit. A strategy that does not
    /// wait, or waits for ever, refuses a limit.
    ///
    /// It does not cut a question to the store short: to give up on one that is merely slow would be to fail although the
    /// key is free. While the store does not answer, [`Unavailable`](LockErrorKind::Unavailable) therefore comes up to one
    /// call later than the limit, on Redis the `timeout` of the URL, 500 ms. For a bound on everything, put
    /// `tokio::time::timeout` around [`acquire`](Self::acquire), which leaves nothing behind when it is dropped.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// The pauses of a strategy between its tries, in place of the strategy's own. A strategy that does not try again
    /// refuses a backoff.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Whether the lease is renewed while the lock is held. Default: yes. Without, the lock is lost after its ttl.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = Some(renew);
        self
    }

    /// Sets how often the lease is renewed, where a third of it is too seldom: a renewal also finds out that somebody
    /// deleted the key, so a lock with a long lease is told of that within this time. At least 10 ms. Default: a third of the
    /// ttl.
    ///
    /// Everybody else who takes a lock away is heard of at once, by [`force_release`](crate::LockManager::force_release) or
    /// at the end of the lease. Renewals of many locks go out together, so that one each second costs a fraction of a command.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let import = locks.lock("import").ttl(Duration::from_secs(60)).renew_every(Duration::from_secs(1));
    /// # let _ = import;
    /// ```
    pub fn renew_every(mut self, every: Duration) -> Self {
        self.renew_every = Some(every);
        self
    }

    /// Whether the fencing token is to come with the grant. Default: no; then the first
    /// [`fencing_token`](LockGuard::fencing_token) asks the store once, where the store does not give it anyway.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.fencing = fencing;
        self
    }

    /// Whether a task that holds the key may enter it again. Default: yes; otherwise that is
    /// [`Reentered`](LockErrorKind::Reentered) at once.
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = reentrant;
        self
    }

    /// The longest time that the lock is held, renewals included: for bodies that hang and guards that are forgotten.
    /// After it the lock is lost. Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.max_hold = Some(max);
        self
    }

    /// The shortest time for which the key is taken, counted from the grant: a job that ends early must not run again on
    /// the next machine. The release does not wait for it. A holder that dies frees the key when its lease is over, as
    /// without. At most what the store keeps: 366 days on Redis, the `max_ttl` of a `redlock://`, whose servers do not vote
    /// for so long after they forgot. Default: none.
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.min_hold = Some(min);
        self
    }

    /// How many may wait for the key before a further request is [`Overloaded`](LockErrorKind::Overloaded). Default: any
    /// number. Counted are the waiters of this process for [`lock`](crate::LockManager::lock), and those in the store's
    /// queue, of all processes, for every other kind; one that died counts for
    /// the lease of its place, min(ttl, 2 s), and until the next sign of life of a living one beside it, a third of that.
    pub fn max_waiters(mut self, max: usize) -> Self {
        self.max_waiters = Some(max);
        self
    }

    /// What the lock is for; it is kept in the owner record that errors and operators see. Default: none.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The text that the key was rendered from, `order:<id>`: spans and metrics name it, because there are few templates and
    /// many keys. The attribute and the HTTP layer set it. Default: none.
    pub fn template(mut self, template: impl Into<Cow<'static, str>>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Takes the defaults from the profile of this name. An unknown one is
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when the lock is asked for.
    pub fn profile(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// What [`run`](Self::run) and [`run_with`](Self::run_with) do when the lock is lost. Default: [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// Says whether the request could ever be granted, without any I/O: for whoever builds requests from settings, at the
    /// start and not at the first call.
    ///
    /// # Errors
    /// [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest),
    /// [`Unsupported`](LockErrorKind::Unsupported): what [`acquire`](Self::acquire) would answer before any I/O.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use lock_core::{LockErrorKind, LockManager, strategy};
    ///
    /// let locks = LockManager::in_memory();
    /// let request = locks.lock("k").strategy(strategy::fail_fast()).wait(Duration::from_secs(1));
    /// assert_eq!(request.check().unwrap_err().kind(), LockErrorKind::InvalidRequest);
    /// ```
    pub fn check(self) -> Result<()> {
        self.plan().map(drop)
    }

    /// Acquires the lock, waiting as the strategy says.
    ///
    /// # Errors
    /// - [`Contended`](LockErrorKind::Contended), [`TimedOut`](LockErrorKind::TimedOut): another holder; the error says
    ///   who, where the store knows, and [`is_skipped`](LockError::is_skipped) when the strategy does without.
    /// - [`Overloaded`](LockErrorKind::Overloaded): too many wait.
    /// - [`Unavailable`](LockErrorKind::Unavailable): the store. A waiting strategy tries again within its limit;
    ///   [`wait`](strategy::wait()) goes on for ever, and says so in the log.
    /// - [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest),
    ///   [`Unsupported`](LockErrorKind::Unsupported): the request, before any I/O.
    /// - [`Upgrade`](LockErrorKind::Upgrade), [`Reentered`](LockErrorKind::Reentered): this task holds the key already.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    ///
    /// # Panics
    /// In a tokio runtime without its timer; a store on the network needs the I/O driver too (`enable_all`).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind: what may have been taken is given back in the background, and a place
    /// in a queue is left.
    pub async fn acquire(self) -> Result<LockGuard> {
        acquire::acquire(self.plan()?).await
    }

    /// Tries exactly once: `None` when another holds the key. The strategy is not asked, and nothing waits.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but for the contention itself.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(mut self) -> Result<Option<LockGuard>> {
        self.strategy = Some(Arc::new(strategy::fail_fast()));
        self.wait = None;
        self.backoff = None;
        match acquire::acquire(self.plan()?).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == LockErrorKind::Contended => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, runs `body` under it, and gives it back.
    ///
    /// The body runs at most once and never unlocked. When the lock is lost it is dropped (see [`on_lost`](Self::on_lost)).
    /// What the body borrowed or held is dropped before the lock is given back. A nested request for the same key in
    /// the same task enters the grant again. The release is waited for, for at most a second; then it goes on in the
    /// background. A release that fails never masks the body's result.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Lost`](LockErrorKind::Lost) when the lock was lost while the body ran: what it
    /// did so far is not undone.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body first, then gives the lock back in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let sum = locks.lock("account:7").run(async { 20 + 22 }).await?;
    /// assert_eq!(sum, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(self, body: F) -> Result<F::Output> {
        // In a box, because every function that passes a future on by value keeps a copy of it in its own.
        let body = Box::pin(body);
        let on_lost = self.on_lost;
        let guard = self.acquire().await?;
        body::under(guard, on_lost, body).await
    }

    /// As [`run`](Self::run), with a handle on the lock for the body: its fencing token, what is left, whether it is lost.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let token = locks.lock("account:7").run_with(|lock| async move { lock.fencing_token().await }).await??;
    /// println!("UPDATE account SET .., fence = {token} WHERE id = 7 AND fence <= {token}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_with<F, Fut>(self, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(LockHandle) -> Fut,
        Fut: Future,
    {
        let on_lost = self.on_lost;
        let guard = self.acquire().await?;
        let body = Box::pin(body(guard.handle()));
        body::under(guard, on_lost, body).await
    }

    /// Checks everything that can be checked without the store.
    fn plan(self) -> Result<Box<Plan>> {
        let key = self.key.map_err(|bad| LockError::new(bad.kind, bad.text.to_string()))?;
        let hub = self.hub;
        let profiles = &hub.engine.profiles;
        let named = self.profile.as_deref().map(|name| profiles.get(name)).transpose();
        let profile = named.map_err(|error| error.with_key(&key))?.cloned().unwrap_or_default();
        let defaults = profiles;
        // A default limit belongs to the default strategy beside it: it must not clash with another one.
        let profile_wait = if self.strategy.is_none() { profile.wait } else { None };
        let own_strategy = self.strategy.or(profile.strategy);
        let default_wait = if own_strategy.is_none() { defaults.wait } else { None };
        let strategy = own_strategy.unwrap_or_else(|| Arc::clone(&defaults.strategy));
        let strategy = match self.backoff {
            None => strategy,
            Some(backoff) => with_backoff(&*strategy, backoff).map_err(|error| error.with_key(&key))?,
        };
        // In a box, because it is passed on through several futures.
        let plan = Box::new(Plan {
            ttl: self.ttl.or(profile.ttl).unwrap_or(defaults.ttl),
            wait: self.wait.or(profile_wait).or(default_wait),
            options: LeaseOptions {
                kind: self.kind,
                renew: self.renew.or(profile.renew).unwrap_or(defaults.renew),
                renew_every: self.renew_every,
                max_hold: self.max_hold,
                min_hold: self.min_hold,
            },
            fencing: self.fencing,
            reentrant: self.reentrant,
            max_waiters: self.max_waiters,
            label: self.label,
            template: self.template,
            strategy,
            hub,
            key,
            more: self.more,
        });
        plan.check().map_err(|error| error.with_key(&plan.key))?;
        Ok(plan)
    }
}

fn with_backoff(strategy: &dyn Strategy, backoff: Backoff) -> Result<Arc<dyn Strategy>> {
    strategy.with_backoff(backoff).ok_or_else(|| {
        let name = strategy.name();
        let detail =
            format!("a backoff is given, but strategy `{name}` takes none: drop one, or use `retry`");
        LockError::new(LockErrorKind::InvalidRequest, detail)
    })
}
