//! The builder, and what it builds.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Version;
use lock_core::key::Key;
use lock_core::strategy::{self, Strategy};
use lock_core::{Kind, LockError, LockErrorKind, LockManager, LockRequest, Result};
use tower::Layer;

use crate::hold::Hold;
use crate::key::{KeySource, NoKey};
use crate::rejection::LockRejection;
use crate::service::Lock;

/// A layer without a key yet; [`LockLayer::key`] gives it one. Only a layer with a key can be mounted.
#[derive(Clone, Debug)]
pub struct NoKeyYet(());

/// A layer with a key.
#[derive(Clone, Debug)]
pub struct Keyed(KeySource);

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
    manager: LockManager,
    key: K,
    kind: Kind,
    ttl: Option<Duration>,
    strategy: Option<Arc<dyn Strategy>>,
    wait: Option<Duration>,
    max_hold: Option<Duration>,
    max_waiters: Option<usize>,
    label: Option<Cow<'static, str>>,
    hold: Hold,
    told: Arc<Told>,
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
    /// [`InvalidKey`](LockErrorKind::InvalidKey) with the place and what was expected there.
    pub fn try_key(self, template: &str) -> Result<LockLayer> {
        let key = Keyed(KeySource::parse(template)?);
        let Self { manager, key: _, kind, ttl, strategy, wait, max_hold, max_waiters, label, hold, told } =
            self;
        Ok(LockLayer { manager, key, kind, ttl, strategy, wait, max_hold, max_waiters, label, hold, told })
    }
}

impl<K> LockLayer<K> {
    /// Which kind of lock: [`Kind::Read`] for routes that may run side by side while no [`Kind::Write`] runs, for
    /// example. Default: [`Kind::Reentrant`].
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

    /// What to do when the key is held. Default: [`fail_fast`](strategy::fail_fast), an answer at once; with
    /// [`wait`](Self::wait), [`retry`](strategy::retry).
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
    /// number.
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

    fn strategy_or_default(&self) -> Arc<dyn Strategy> {
        match &self.strategy {
            Some(strategy) => Arc::clone(strategy),
            None if self.wait.is_some() => Arc::new(strategy::retry()),
            None => Arc::new(strategy::fail_fast()),
        }
    }
}

impl<S> Layer<S> for LockLayer {
    type Service = Lock<S>;

    /// Wraps `inner`.
    ///
    /// # Panics
    /// When [`wait`](LockLayer::wait) sets a limit and the strategy takes none: at start-up, rather than at each request.
    fn layer(&self, inner: S) -> Self::Service {
        let strategy = self.strategy_or_default();
        if let Some(wait) = self.wait.filter(|_| !strategy.takes_wait_limit()) {
            let name = strategy.name();
            panic!(
                "LockLayer: wait is {wait:?}, but the strategy `{name}` takes no limit: drop one, or use `retry`"
            );
        }
        Lock::new(inner, Arc::new(Config { layer: self.clone(), strategy }))
    }
}

/// What was logged already. All services of a layer share it: a router makes many, even one for each request until it
/// is given its state.
#[derive(Debug, Default)]
struct Told {
    misconfigured: AtomicBool,
    no_route: AtomicBool,
}

/// What the clones of one service share.
#[derive(Debug)]
pub(crate) struct Config {
    layer: LockLayer,
    strategy: Arc<dyn Strategy>,
}

impl Config {
    pub(crate) fn key(&self) -> &KeySource {
        &self.layer.key.0
    }

    pub(crate) fn hold(&self) -> Hold {
        self.layer.hold
    }

    /// The request for the lock on `key`.
    pub(crate) fn request(&self, key: Key) -> LockRequest {
        let layer = &self.layer;
        let mut request = layer.manager.request(key, layer.kind).strategy(Arc::clone(&self.strategy));
        if let Some(ttl) = layer.ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = layer.wait {
            request = request.wait(wait);
        }
        if let Some(max) = layer.max_hold {
            request = request.max_hold(max);
        }
        if let Some(max) = layer.max_waiters {
            request = request.max_waiters(max);
        }
        if let Some(label) = &layer.label {
            request = request.label(label.clone());
        }
        request
    }

    /// The answer to a request whose lock was not had, or was lost.
    pub(crate) fn refuse(&self, error: &LockError, version: Version) -> LockRejection {
        let template = self.key().template();
        let rejection = LockRejection::of_error(error, Some(template), version);
        match error.kind() {
            LockErrorKind::Contended | LockErrorKind::TimedOut | LockErrorKind::Overloaded => {}
            _ if rejection.status().as_u16() == 500 => self.misconfigured(&error.to_string()),
            // The lock itself has told of its loss, and a shutdown is no news.
            LockErrorKind::Lost | LockErrorKind::ShuttingDown => {}
            _ => tracing::warn!(lock.template = template, %error, "request refused for want of its lock"),
        }
        rejection
    }

    /// The answer to a request without a key; `None` when it is to go on without a lock.
    pub(crate) fn no_key(&self, why: NoKey) -> Option<LockRejection> {
        let template = self.key().template();
        match why {
            NoKey::Client(detail) => Some(LockRejection::key_invalid(detail, template)),
            NoKey::Program(text) => {
                self.misconfigured(&text);
                Some(LockRejection::misconfigured())
            }
            NoKey::NoRoute => None,
        }
    }

    /// A request without a route went on without a lock. A service that answers it with anything but "not found" is
    /// one whose work is not protected.
    pub(crate) fn passed_without_route(&self, status: http::StatusCode) {
        if status != http::StatusCode::NOT_FOUND && !self.layer.told.no_route.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                lock.template = self.key().template(),
                http.status = status.as_u16(),
                "a request for which the router knows no route was served without a lock: mount the layer inside of \
                 `nest_service`, or on the routes with `route_layer`"
            );
        }
    }

    /// Says what is wrong with the program: once, as it is the same for each request.
    fn misconfigured(&self, text: &str) {
        let template = self.key().template();
        if self.layer.told.misconfigured.swap(true, Ordering::Relaxed) {
            tracing::debug!(lock.template = template, "misconfigured: {text}");
        } else {
            tracing::error!(
                lock.template = template,
                "misconfigured, such requests are answered with 500: {text}"
            );
        }
    }
}
