//! The builder, and what it builds.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lock_core::strategy::Strategy;
use lock_core::{Kind, LockManager, Result};
use tower::Layer;

use crate::config::{Config, Told};
use crate::hold::Hold;
use crate::keys::Keys;
use crate::service::Lock;

/// A layer without a key yet; [`LockLayer::key`] gives it one, [`LockLayer::keys`] several. Only a layer with a key can be mounted.
#[derive(Clone, Debug)]
pub struct NoKeyYet(());

/// A layer with a key.
#[derive(Clone, Debug)]
pub struct Keyed(pub(crate) Keys);

/// Runs requests under a lock: [`Layer`] of the service [`Lock`].
///
/// See the documentation of the crate for what clients get to see and for where to mount it.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use axum::{Router, routing::post};
/// use lock_axum::LockLayer;
/// use lock_core::{LockManager, strategy};
///
/// let locks = LockManager::in_memory();
/// let one_at_a_time = LockLayer::new(locks)
///     .key("order:<id>")
///     .ttl(Duration::from_secs(5))
///     .strategy(strategy::retry().within(Duration::from_secs(1)));
/// let app: Router = Router::new().route("/orders/{id}/pay", post(async || "paid").route_layer(one_at_a_time));
/// ```
///
/// A layer without a key cannot be mounted:
/// ```compile_fail,E0277
/// # use axum::{Router, routing::post};
/// # let locks = lock_core::LockManager::in_memory();
/// let app: Router = Router::new().route("/pay", post(async || "paid").layer(lock_axum::LockLayer::new(locks)));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is mounted"]
pub struct LockLayer<K = Keyed> {
    pub(crate) manager: LockManager,
    pub(crate) key: K,
    pub(crate) kind: Kind,
    pub(crate) ttl: Option<Duration>,
    pub(crate) strategy: Option<Arc<dyn Strategy>>,
    pub(crate) wait: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_waiters: Option<usize>,
    pub(crate) label: Option<Cow<'static, str>>,
    pub(crate) hold: Hold,
    pub(crate) told: Arc<Told>,
}

impl LockLayer<NoKeyYet> {
    /// Begins a layer that takes its locks from `manager`.
    pub fn new(manager: LockManager) -> Self {
        Self {
            manager,
            key: NoKeyYet(()),
            kind: Kind::Reentrant,
            ttl: None,
            strategy: None,
            wait: None,
            max_hold: None,
            max_waiters: None,
            label: None,
            hold: Hold::default(),
            told: Arc::default(),
        }
    }

    /// Sets the key to lock, a template:
    ///
    /// | placeholder | stands for | when it is not there |
    /// | --- | --- | --- |
    /// | `<id>` | the path parameter of this name, decoded | 500, and the log says which there are |
    /// | `<header.x-tenant>` | a header, once and not empty | 400 |
    /// | `<query.page>` | a parameter of the query, once and not empty | 400 |
    /// | `<method>` | the method: `POST` | |
    /// | `<route>` | the route as it was registered: `/orders/{id}` | not locked, as no route was found |
    ///
    /// Values are encoded: no client can reach the key of another template with a clever value.
    ///
    /// # Panics
    /// When the template cannot be read or a placeholder means nothing: at start-up, with the place and what was
    /// expected there. [`try_key`](Self::try_key) returns that instead.
    #[track_caller]
    pub fn key(self, template: &str) -> LockLayer {
        match self.try_key(template) {
            Ok(layer) => layer,
            Err(error) => panic!("LockLayer: {error}"),
        }
    }

    /// As [`key`](Self::key), for templates that come from a configuration.
    ///
    /// # Errors
    /// [`InvalidKey`](lock_core::LockErrorKind::InvalidKey) with the place and what was expected there.
    pub fn try_key(self, template: &str) -> Result<LockLayer> {
        Ok(self.keyed(Keys::one(template)?))
    }

    /// Sets several keys to lock, all or none, each a template as that of [`key`](Self::key). The order does not matter:
    /// two requests that name the same keys the other way round never wait for each other. Where two templates give the
    /// same key, it is taken once.
    ///
    /// They stand in place of [`key`](Self::key), and each has one holder: another [`kind`](Self::kind) than
    /// [`Kind::Reentrant`] does not go with them. A layer within a layer must not ask for more keys than the outer one
    /// has, if they have one in common: it would wait for its own request, and is a 500.
    ///
    /// # Panics
    /// As [`key`](Self::key), and without any template or with the same one twice. [`try_keys`](Self::try_keys) returns
    /// that instead.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::{Request, StatusCode};
    /// # use lock_axum::LockLayer;
    /// # use tower::ServiceExt;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let both = LockLayer::new(locks.clone()).keys(["account:<from>", "account:<to>"]);
    /// let app: Router =
    ///     Router::new().route("/transfer/{from}/{to}", post(async || "moved").route_layer(both));
    ///
    /// let busy = locks.lock("account:2").acquire().await?;
    /// let request = || Request::post("/transfer/1/2").body(Body::empty());
    /// assert_eq!(app.clone().oneshot(request()?).await?.status(), StatusCode::CONFLICT);
    /// busy.release().await?;
    /// assert_eq!(app.oneshot(request()?).await?.status(), StatusCode::OK);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A layer has one `key` or several `keys`, not both:
    /// ```compile_fail,E0599
    /// # let locks = lock_core::LockManager::in_memory();
    /// lock_axum::LockLayer::new(locks).key("order:<id>").keys(["stock:<id>"]);
    /// ```
    #[track_caller]
    pub fn keys<T: AsRef<str>>(self, templates: impl IntoIterator<Item = T>) -> LockLayer {
        match self.try_keys(templates) {
            Ok(layer) => layer,
            Err(error) => panic!("LockLayer: {error}"),
        }
    }

    /// As [`keys`](Self::keys), for templates that come from a configuration.
    ///
    /// # Errors
    /// [`InvalidKey`](lock_core::LockErrorKind::InvalidKey) with the place and what was expected there.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let error = lock_axum::LockLayer::new(locks).try_keys(["a:<x>", "a:<x>"]).unwrap_err();
    /// assert!(error.to_string().contains("twice"));
    /// ```
    pub fn try_keys<T: AsRef<str>>(self, templates: impl IntoIterator<Item = T>) -> Result<LockLayer> {
        Ok(self.keyed(Keys::all(templates)?))
    }

    fn keyed(self, keys: Keys) -> LockLayer {
        let Self { manager, key: _, kind, ttl, strategy, wait, max_hold, max_waiters, label, hold, told } =
            self;
        let key = Keyed(keys);
        LockLayer { manager, key, kind, ttl, strategy, wait, max_hold, max_waiters, label, hold, told }
    }
}

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
    /// # Panics
    /// When it is mounted: a semaphore without a permit, and another kind than `Reentrant` with [`keys`](Self::keys).
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
        self.kind = kind;
        self
    }

    /// The lease: how long a server that crashed keeps others out. Renewed while the request runs. Default: the
    /// manager's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What to do when the key is held. Default: [`fail_fast`](lock_core::strategy::fail_fast), an answer at once; with
    /// [`wait`](Self::wait), [`retry`](lock_core::strategy::retry).
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// How long a request waits for its lock. Default: it does not wait.
    ///
    /// A request that waits keeps its place in the services below the layer, such as a permit of a concurrency limit.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// The longest time that a request holds its lock; after it the lock is lost and the handler dropped. Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.max_hold = Some(max);
        self
    }

    /// How many requests may wait for one key in this process before a further one is refused with 503. Default: any
    /// number. Of several [`keys`](Self::keys), each has waiters of its own.
    ///
    /// # Panics
    /// When it is mounted: with 0, and where no request waits, without a [`wait`](Self::wait) or a
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
        self.max_waiters = Some(max);
        self
    }

    /// What the lock is for; operators see it in the owner record, clients do not. Default: none.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Until when the lock is held. Default: [`Hold::Auto`].
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }
}

impl<S> Layer<S> for LockLayer {
    type Service = Lock<S>;

    /// Wraps `inner`.
    ///
    /// # Panics
    /// When options contradict each other: at start-up, rather than at each request. [`wait`](LockLayer::wait) with a
    /// strategy that takes no limit, [`max_waiters`](LockLayer::max_waiters) of 0 or where nobody waits, a
    /// [`kind`](LockLayer::kind) that does not go with [`keys`](LockLayer::keys) or has no permit.
    fn layer(&self, inner: S) -> Self::Service {
        match Config::new(self.clone()) {
            Ok(config) => Lock::new(inner, Arc::new(config)),
            Err(contradiction) => panic!("LockLayer: {contradiction}"),
        }
    }
}
