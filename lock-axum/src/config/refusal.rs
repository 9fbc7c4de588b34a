//! What a mounted layer answers without its lock, and what it says of that in the log.

use std::fmt;
use std::sync::atomic::Ordering;

use axum::response::Response;
use http::request::Parts;
use http::{StatusCode, Version};
use lock_core::clock::Clock;
use lock_core::{LockError, LockErrorKind};

use super::checked::Config;
use super::policy::{OnNoRoute, OnStoreError};
use crate::answer::{LockRejection, Outcome};
use crate::key::NoKey;

impl Config {
    /// Whether a request without its lock is to be served all the same. Counts it, and says so in the log.
    pub(crate) fn runs_unlocked(&self, error: &LockError) -> bool {
        let options = self.options();
        if options.on_store_error != OnStoreError::RunUnlocked || !error.is_unavailable() {
            return false;
        }
        let template = self.keys().template();
        options.manager.record_bypass(template);
        if let Some(count) = options.told.unlocked.add(Clock::Tokio.now()) {
            tracing::warn!(
                lock.template = template,
                error = %options.manager.told(error),
                count,
                "the store of locks does not answer, and requests are served without a lock, as the layer says: so many \
                 since this was last told"
            );
        }
        true
    }

    /// The answer to a request that is not served; `head` is there if the answers want to look at it.
    pub(crate) fn answer(&self, rejection: LockRejection, head: Option<&Parts>) -> Response {
        self.options().answers.response(rejection, head)
    }

    /// The answer to a request whose lock was not had, or was lost.
    pub(crate) fn refused(&self, error: &LockError, version: Version, head: Option<&Parts>) -> Response {
        let (template, manager) = (self.keys().template(), &self.options().manager);
        let rejection = LockRejection::of_error(error, Some(template), version);
        match error.kind() {
            LockErrorKind::Contended | LockErrorKind::TimedOut | LockErrorKind::Overloaded => {}
            _ if rejection.outcome() == Outcome::Misconfigured => {
                self.misconfigured(&manager.told(error));
            }
            // The lock itself has told of its loss, and a shutdown is no news.
            LockErrorKind::Lost | LockErrorKind::ShuttingDown => {}
            _ => {
                if let Some(left_out) = manager.admit_refusal(template) {
                    let error = manager.told(error);
                    tracing::warn!(lock.template = template, %error, left_out, "request refused for want of its lock");
                }
            }
        }
        self.answer(rejection, head)
    }

    /// A handler that cannot do without its lock runs without one, because the store does not answer.
    pub(crate) fn tell_lock_is_needed(&self) {
        let template = self.keys().template();
        if let Some(left_out) = self.options().manager.admit_refusal(template) {
            tracing::warn!(
                lock.template = template,
                left_out,
                "the store of locks does not answer, and the handler cannot do without its lock: with \
                 `OnStoreError::RunUnlocked` it takes an `Option<LockHandle>`"
            );
        }
    }

    /// The answer to a request without a key; `None` when it is to go on without a lock.
    pub(crate) fn no_key(&self, why: NoKey, parts: &Parts) -> Option<Response> {
        let template = self.keys().template();
        let rejection = match why {
            NoKey::Client(detail) => LockRejection::key_invalid(detail, template),
            NoKey::Program(text) => self.misconfigured(&text),
            NoKey::Refused(_) if self.options().answers.are_grpc() => LockRejection::key_invalid(
                "The key of the lock cannot be made from this request.".into(),
                template,
            ),
            NoKey::Refused(answer) => return Some(*answer),
            NoKey::NoRoute if self.options().on_no_route == OnNoRoute::Refuse => self.misconfigured(
                &"the router knows no route for this request: mount the layer inside of `nest_service`, or on the routes \
                 with `route_layer`",
            ),
            NoKey::NoRoute | NoKey::Skip => return None,
        };
        Some(self.answer(rejection, Some(parts)))
    }

    /// A request without a route went on without a lock. A service that answers it with anything but "not found" is
    /// one whose work is not protected.
    pub(crate) fn passed_without_route(&self, status: StatusCode) {
        if status != StatusCode::NOT_FOUND && !self.options().told.no_route.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                lock.template = self.keys().template(),
                http.status = status.as_u16(),
                "a request for which the router knows no route was served without a lock: mount the layer inside of \
                 `nest_service`, or on the routes with `route_layer`"
            );
        }
    }

    /// The answer to a request that the program cannot serve; the log says why.
    pub(crate) fn misconfigured(&self, text: &dyn fmt::Display) -> LockRejection {
        self.options().told.misconfigured(self.keys().template(), text);
        LockRejection::misconfigured()
    }
}
