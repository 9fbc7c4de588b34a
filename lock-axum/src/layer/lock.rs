//! Which lock: what a request for it can say, too.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Kind;
use lock_core::strategy::Strategy;

use super::builder::LockLayer;

impl<K> LockLayer<K> {
    /// Which kind of lock. Default: [`Kind::Reentrant`].
    ///
    /// | kind | requests for one key |
    /// | --- | --- |
    /// | [`Kind::Reentrant`] | one at a time |
    /// | [`Kind::Fair`] | one at a time; those that [wait](Self::wait) are served in the order of their arrival |
    /// | [`Kind::Read`] | side by side, while no [`Kind::Write`] is served |
    /// | [`Kind::Write`] | one at a time, and no [`Kind::Read`] beside it |
    /// | [`Kind::Semaphore`] | as many at a time as there are permits |
    ///
    /// A store that does not have the kind is a 500, and the log says so. Whoever locks the same key names the same
    /// kind, but for `Read` and `Write`, which are made for each other. A layer within a layer for the same key follows
    /// the rules of a task that enters its lock again: a `Write` inside of a `Read` is a 500.
    ///
    /// [`check`](LockLayer::check) refuses a semaphore without a permit, and another kind than `Reentrant` with
    /// [`keys`](Self::keys).
    ///
    /// # Examples
    /// ```
    /// use axum::{Router, routing::get};
    /// use lock_axum::LockLayer;
    /// use lock_core::{Kind, LockManager};
    ///
    /// let locks = LockManager::in_memory();
    /// let page = |kind| LockLayer::new(locks.clone()).key("page:<id>").kind(kind);
    /// let show = get(async || "shown").route_layer(page(Kind::Read));
    /// let change = show.merge(axum::routing::put(async || "changed").route_layer(page(Kind::Write)));
    /// // At most three reports at a time, of all machines together.
    /// let three = LockLayer::new(locks.clone()).key("report").kind(Kind::Semaphore { permits: 3 });
    /// let app: Router = Router::new()
    ///     .route("/pages/{id}", change)
    ///     .route("/report", get(async || "done").route_layer(three));
    /// ```
    pub fn kind(mut self, kind: Kind) -> Self {
        self.options.kind = kind;
        self
    }

    /// The lease: how long a server that crashed keeps others out. Renewed while the request runs. Default: the
    /// manager's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// What to do when the key is held. Default: [`fail_fast`](lock_core::strategy::fail_fast), an answer at once; with
    /// [`wait`](Self::wait), [`retry`](lock_core::strategy::retry); with a [`profile`](Self::profile) that has one, that.
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// How long a request waits for its lock. Default: it does not wait.
    ///
    /// A request that waits keeps its place in the services below the layer, such as a permit of a concurrency limit.
    ///
    /// Other holders are what it waits for. A store that does not answer is a 503 up to one call later, on Redis the
    /// `timeout` of the URL, 500 ms; see [`LockRequest::wait`](lock_core::LockRequest::wait). A timeout in a layer outside
    /// bounds everything.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.options.wait = Some(limit);
        self
    }

    /// Sets how often the lock is renewed, where a third of its ttl is too seldom to hear that somebody deleted the key; see
    /// [`LockRequest::renew_every`](lock_core::LockRequest::renew_every). Default: a third of the ttl.
    pub fn renew_every(mut self, every: Duration) -> Self {
        self.options.renew_every = Some(every);
        self
    }

    /// The longest time that a request holds its lock; after it the lock is lost and the handler dropped. Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.options.max_hold = Some(max);
        self
    }

    /// How many requests may wait for one key in this process before a further one is refused with 503. Default: any
    /// number. Of several [`keys`](Self::keys), each has waiters of its own.
    ///
    /// [`check`](LockLayer::check) refuses 0, and a number where no request waits, without a [`wait`](Self::wait) or a
    /// [`strategy`](Self::strategy).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use axum::{Router, routing::post};
    /// # let locks = lock_core::LockManager::in_memory();
    /// let queue = lock_axum::LockLayer::new(locks).key("order:<id>").wait(Duration::from_secs(1)).max_waiters(64);
    /// let app: Router = Router::new().route("/orders/{id}/pay", post(async || "paid").route_layer(queue));
    /// ```
    pub fn max_waiters(mut self, max: usize) -> Self {
        self.options.max_waiters = Some(max);
        self
    }

    /// What the lock is for; operators see it in the owner record, clients do not. Default: none.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// Whether the lease is renewed while the request runs. Default: yes; otherwise a request that takes longer than its
    /// [`ttl`](Self::ttl) loses the lock.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let fixed = lock_axum::LockLayer::new(locks).key("order:<id>").ttl(Duration::from_secs(5)).renew(false);
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = Some(renew);
        self
    }

    /// The shortest time for which the key is taken, counted from the grant: a second click within it is refused even if
    /// the first was served at once. The answer does not wait for it. Default: none.
    ///
    /// [`check`](LockLayer::check) refuses one that is longer than [`max_hold`](Self::max_hold).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let one_a_second = lock_axum::LockLayer::new(locks).key("mail:<user>").min_hold(Duration::from_secs(1));
    /// ```
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.options.min_hold = Some(min);
        self
    }

    /// Whether the fencing token comes with the lock, so that the extractor [`FencingToken`](crate::FencingToken) asks the
    /// store for nothing. Default: no.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let fenced = lock_axum::LockLayer::new(locks).key("order:<id>").fencing(true);
    /// ```
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.options.fencing = fencing;
        self
    }

    /// Takes what the layer does not say from this profile of the manager, and only then from the manager itself.
    ///
    /// [`check`](LockLayer::check) refuses a name that the manager does not have.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// use lock_axum::LockLayer;
    /// use lock_core::{LockManager, Profile, backend::memory::Memory, strategy};
    ///
    /// let patient = Profile::new().strategy(strategy::retry()).wait(Duration::from_secs(2));
    /// let locks = LockManager::builder(Memory::new()).profile("checkout", patient).build()?;
    /// let layer = LockLayer::new(locks).key("order:<id>").profile("checkout");
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    pub fn profile(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.profile = Some(name.into());
        self
    }
}
