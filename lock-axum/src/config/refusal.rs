//! Makes the answers and log messages of a mounted layer for requests that do not run under a lock.

use std::fmt;
use std::time::Duration;

use axum_core::response::Response;
use http::request::Parts;
use http::{StatusCode, Version};
use lock_core::clock::Clock;
use lock_core::{LockError, LockErrorKind};

use super::checked::Config;
use super::policy::{OnNoRoute, OnStoreError};
use crate::answer::{LockRejection, Outcome, UNKNOWN};
use crate::key::NoKey;
use crate::router;

impl Config {
    /// Returns whether the request is served although its lock could not be acquired, because of `error`. A request
    /// that is served is also counted and logged.
    pub(crate) fn runs_unlocked(&self, error: &LockError) -> bool {
        let options = self.options();
        if options.on_store_error != OnStoreError::RunUnlocked || !error.is_unavailable() {
            return false;
        }
        let template = self.keys().template();
        self.manager.record_bypass(template);
        options.logged.unlocked(template, &self.manager.redacted(error), Clock::Tokio.now());
        true
    }

    /// Returns the answer to a request that is not served. `head` must be present if the answers need it.
    pub(crate) fn answer(&self, rejection: LockRejection, head: Option<&Parts>) -> Response {
        self.options().answers.response(rejection, head)
    }

    /// Returns the answer to a request whose lock was not acquired, or was lost, and logs errors for the operator.
    pub(crate) fn refused(&self, error: &LockError, version: Version, head: Option<&Parts>) -> Response {
        let (template, manager) = (self.keys().template(), &self.manager);
        let mut rejection = LockRejection::of_error(error, Some(template), version);
        match error.kind() {
            LockErrorKind::Contended | LockErrorKind::TimedOut | LockErrorKind::Overloaded => {
                rejection = rejection.with_retry_after(self.retry_after(error));
            }
            _ if rejection.outcome() == Outcome::Misconfigured => {
                self.misconfigured(&manager.redacted(error));
            }
            // The lock itself has logged its loss. A shutdown needs no message.
            LockErrorKind::Lost | LockErrorKind::ShuttingDown => {}
            _ => {
                if let Some(left_out) = manager.admit_refusal(template) {
                    let error = manager.redacted(error);
                    tracing::warn!(lock.template = template, %error, left_out, "request refused: its lock is not available");
                }
            }
        }
        self.answer(rejection, head)
    }

    /// Returns the `Retry-After` of a client that found the key held: the option `retry_after` of the layer. Without
    /// the option, the time is estimated from the duration of earlier requests, and is at most the rest of the lease.
    fn retry_after(&self, error: &LockError) -> Duration {
        let options = self.options();
        options.retry_after.unwrap_or_else(|| {
            let probably = options.use_times.probably_free_after().unwrap_or(UNKNOWN);
            // A key stays locked for its `min_hold`, even after a short request.
            let probably = probably.max(self.min_hold());
            error.retry_after().map_or(probably, |rest| rest.min(probably))
        })
    }

    /// Logs that a handler that needs its lock ran without one, because the store does not answer.
    pub(crate) fn log_lock_needed(&self) {
        let template = self.keys().template();
        if let Some(left_out) = self.manager.admit_refusal(template) {
            tracing::warn!(
                lock.template = template,
                left_out,
                "the lock store does not answer, and the handler needs its lock: with `OnStoreError::RunUnlocked`, let \
                 it take an `Option<LockHandle>`"
            );
        }
    }

    /// Returns the answer to a request without a key, or `None` if the request is served without a lock.
    pub(crate) async fn no_key(&self, why: NoKey, parts: &Parts) -> Option<Response> {
        let template = self.keys().template();
        let rejection = match why {
            NoKey::Client(detail) => LockRejection::key_invalid(detail, template),
            NoKey::Program(text) => self.misconfigured(&text),
            NoKey::Refused(_) if self.options().answers.is_grpc => LockRejection::key_invalid(
                "The key of the lock cannot be made from this request.".into(),
                template,
            ),
            NoKey::Refused(answer) => return Some(*answer),
            NoKey::NoRoute if self.refuses_unrouted(parts).await => self.misconfigured(
                &"the router found no route for this request: mount the layer inside `nest_service`, or on the routes \
                 with `route_layer`",
            ),
            NoKey::NoRoute | NoKey::Skip => return None,
        };
        Some(self.answer(rejection, Some(parts)))
    }

    async fn refuses_unrouted(&self, parts: &Parts) -> bool {
        match self.options().on_no_route {
            OnNoRoute::RefuseNested => router::is_passed_on(parts).await,
            OnNoRoute::Serve => false,
            OnNoRoute::Refuse => true,
        }
    }

    /// Logs that a request without a route was served without a lock. A 404 is expected, and is not logged. Any other
    /// answer may come from work that ran without its lock.
    pub(crate) fn served_without_route(&self, status: StatusCode) {
        if status != StatusCode::NOT_FOUND {
            self.options().logged.no_route(self.keys().template(), status);
        }
    }

    /// Returns the answer to a request that fails because of a mistake in the program, and logs `text`.
    pub(crate) fn misconfigured(&self, text: &dyn fmt::Display) -> LockRejection {
        self.options().logged.misconfigured(self.keys().template(), text);
        LockRejection::misconfigured()
    }
}
