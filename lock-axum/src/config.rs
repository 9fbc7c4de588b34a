//! What a mounted layer asks for, and what it answers without its lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Version;
use lock_core::strategy::{self, Strategy};
use lock_core::{Kind, LockError, LockErrorKind, LockRequest};

use crate::hold::Hold;
use crate::key::NoKey;
use crate::keys::{Keys, Rendered};
use crate::layer::LockLayer;
use crate::rejection::LockRejection;

/// What was logged already. All services of a layer share it: a router makes many, even one for each request until it
/// is given its state.
#[derive(Debug, Default)]
pub(crate) struct Told {
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
    /// What a layer asks for, or why its options do not go together.
    pub(crate) fn new(layer: LockLayer) -> Result<Self, String> {
        let strategy: Arc<dyn Strategy> = match &layer.strategy {
            Some(strategy) => Arc::clone(strategy),
            None if layer.wait.is_some() => Arc::new(strategy::retry()),
            None => Arc::new(strategy::fail_fast()),
        };
        check_waiting(&layer, &strategy)?;
        check_kind(&layer)?;
        Ok(Self { layer, strategy })
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.layer.key.0
    }

    pub(crate) fn hold(&self) -> Hold {
        self.layer.hold
    }

    /// The request for the lock on `keys`.
    pub(crate) fn request(&self, keys: Rendered) -> LockRequest {
        let layer = &self.layer;
        let request = match keys {
            Rendered::One(key) => layer.manager.request(key, layer.kind),
            Rendered::All(keys) => layer.manager.all(keys),
        };
        let mut request = request.strategy(Arc::clone(&self.strategy));
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
        let template = self.keys().template();
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
        let template = self.keys().template();
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
                lock.template = self.keys().template(),
                http.status = status.as_u16(),
                "a request for which the router knows no route was served without a lock: mount the layer inside of \
                 `nest_service`, or on the routes with `route_layer`"
            );
        }
    }

    /// Says what is wrong with the program: once, as it is the same for each request.
    fn misconfigured(&self, text: &str) {
        let template = self.keys().template();
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

fn check_waiting(layer: &LockLayer, strategy: &dyn Strategy) -> Result<(), String> {
    if let Some(wait) = layer.wait.filter(|_| !strategy.takes_wait_limit()) {
        let name = strategy.name();
        return Err(format!(
            "wait is {wait:?}, but the strategy `{name}` takes no limit: drop one, or use `retry`"
        ));
    }
    match layer.max_waiters {
        Some(0) => Err("max_waiters is 0, so nobody could wait: drop it, and `wait` too".to_owned()),
        Some(max) if layer.wait.is_none() && layer.strategy.is_none() => Err(format!(
            "max_waiters is {max}, but without `wait` or a `strategy` no request waits: add one, or drop it"
        )),
        _ => Ok(()),
    }
}

fn check_kind(layer: &LockLayer) -> Result<(), String> {
    let kind = layer.kind;
    if matches!(kind, Kind::Semaphore { permits: 0 }) {
        return Err("a semaphore with 0 permits admits nobody: give it at least 1".to_owned());
    }
    if matches!(layer.key.0, Keys::All { .. }) && kind != Kind::Reentrant {
        return Err(format!(
            "kind is {kind}, but several keys have one holder each: drop `kind`, or lock one `key`"
        ));
    }
    Ok(())
}
