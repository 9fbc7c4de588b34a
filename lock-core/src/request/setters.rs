//! What a request can say.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::lock_request::LockRequest;
#[cfg(doc)]
use crate::error::LockErrorKind;
#[cfg(doc)]
use crate::guard::LockGuard;
use crate::guard::OnLost;
#[cfg(doc)]
use crate::strategy;
use crate::strategy::{Backoff, Strategy};

impl LockRequest {
    /// The lease: how long a holder that crashed keeps others out. Renewed every third of it while the lock is held.
    /// Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// What to do when the key is held. Default: the manager's, [`strategy::retry()`].
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
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
        self.options.wait = Some(limit);
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
        self.options.renew = Some(renew);
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
}
