//! What a mounted layer asks for, and what it answers without its lock.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::response::Response;
use http::Version;
use http::request::Parts;
use lock_core::clock::{Clock, Moment};
use lock_core::key::Key;
use lock_core::strategy::{self, Contention, Decision, Strategy};
use lock_core::{Kind, LockError, LockErrorKind, LockRequest, Result};

use crate::answer::{Answers, LockRejection, Outcome};
use crate::in_flight::Ticket;
use crate::key::{Keys, NoKey, Rendered};
use crate::layer::{LockLayer, Methods, OnNoRoute, OnStoreError, Options};
use crate::upload::{self, Unread};

/// What was logged already. All services of a layer share it: a router makes many, even one for each request until it
/// is given its state.
#[derive(Debug, Default)]
pub(crate) struct Told {
    misconfigured: Mutex<Vec<String>>,
    no_route: AtomicBool,
    unlocked: Unlocked,
}

/// So many different mistakes of one layer are told at the most.
const MOST_MISTAKES: usize = 16;

impl Told {
    /// Says what is wrong with the program: once, as it is the same for each request. What depends on the request as well
    /// has several texts, of which the first few are told.
    fn misconfigured(&self, template: &str, text: &dyn fmt::Display) {
        let text = text.to_string();
        let is_news = {
            let mut told = self.misconfigured.lock().unwrap_or_else(PoisonError::into_inner);
            let is_news = told.len() < MOST_MISTAKES && !told.contains(&text);
            is_news.then(|| told.push(text.clone())).is_some()
        };
        if !is_news {
            tracing::debug!(lock.template = template, "misconfigured: {text}");
        } else {
            tracing::error!(
                lock.template = template,
                "misconfigured, such requests are answered with 500: {text}"
            );
        }
    }
}

/// Requests that were served without a lock because the store did not answer.
#[derive(Debug, Default)]
struct Unlocked(Mutex<(u64, Option<Moment>)>);

/// So often the log tells of them, while there are any.
const UNLOCKED_EVERY: Duration = Duration::from_secs(10);

impl Unlocked {
    /// Counts one more; how many there were since the log last told of them, if it is to do so now.
    fn add(&self, now: Moment) -> Option<u64> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, told) = &mut *guard;
        *count += 1;
        if told.is_some_and(|told| now.since(told) < UNLOCKED_EVERY) {
            return None;
        }
        *told = Some(now);
        Some(mem::take(count))
    }
}

/// What the clones of one service share.
#[derive(Clone, Debug)]
pub(crate) enum Mounted {
    Sound(Arc<Config>),
    /// The options contradict each other, so no request can be served; so are they answered.
    Broken(Arc<Answers>),
}

impl Mounted {
    /// Never panics: a router mounts a layer when it gets its state, and that may be for each connection.
    pub(crate) fn of(layer: &LockLayer) -> Self {
        let error = match Config::new(layer.clone()) {
            Ok(config) => return Self::Sound(Arc::new(config)),
            Err(error) => error,
        };
        let options = &layer.options;
        options.told.misconfigured(layer.key.0.template(), &error);
        // Answers that are a part of the contradiction would tell the client anything.
        let answers =
            options.answers.check().map_or_else(|_| Answers::default(), |()| options.answers.clone());
        Self::Broken(Arc::new(answers))
    }
}

/// A layer whose options go together.
#[derive(Debug)]
pub(crate) struct Config {
    layer: LockLayer,
    /// `None` where the profile says it.
    strategy: Option<Arc<dyn Strategy>>,
}

impl Config {
    /// What a layer asks for, or why its options do not go together.
    pub(crate) fn new(layer: LockLayer) -> Result<Self> {
        let options = &layer.options;
        let profile = options.profile.as_deref().map(|name| options.manager.profile(name)).transpose()?;
        let strategy: Option<Arc<dyn Strategy>> = match &options.strategy {
            Some(strategy) => Some(Arc::clone(strategy)),
            None if profile.is_some_and(|profile| profile.has_strategy()) => None,
            None if options.wait.is_some() => Some(Arc::new(strategy::retry())),
            None => Some(Arc::new(strategy::fail_fast())),
        };
        check_waiting(options, strategy.as_deref())?;
        check_kind(&layer)?;
        check_times(options)?;
        check_requests(&layer)?;
        options.answers.check().map_err(invalid)?;
        let config = Self { layer, strategy };
        config.check_sample()?;
        Ok(config)
    }

    /// What remains to be found out is found out by a request: what the profile says, and what the store can do.
    fn check_sample(&self) -> Result<()> {
        let keys = self.keys();
        let sample = if let Keys::All { .. } = keys {
            // As many as each request has: the manager bounds them.
            Rendered::All((0..keys.count()).map(|i| Key::new(&i.to_string())).collect::<Result<_>>()?)
        } else {
            // A template that is too long for a key says nothing about the keys that are made of it.
            let Ok(key) = Key::new(keys.template()) else { return Ok(()) };
            Rendered::One(key)
        };
        match self.request(sample).check() {
            Err(error) if error.kind() != LockErrorKind::InvalidKey => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.layer.key.0
    }

    pub(crate) fn options(&self) -> &Options {
        &self.layer.options
    }

    /// Counts the keys of a request; the error says that there are too many.
    pub(crate) fn count(&self, keys: &Rendered) -> Result<Ticket, LockRejection> {
        let options = self.options();
        options
            .in_flight
            .enter(keys.keys(), options.max_keys)
            .ok_or_else(|| LockRejection::too_many_keys(self.keys().template()))
    }

    /// The request for the lock on `keys`.
    pub(crate) fn request(&self, keys: Rendered) -> LockRequest {
        let options = self.options();
        let request = match keys {
            Rendered::One(key) => options.manager.request(key, options.kind),
            Rendered::All(keys) => options.manager.all(keys),
        };
        let mut request = request.template(self.keys().template().to_owned()).fencing(options.fencing);
        if let Some(strategy) = &self.strategy {
            request = request.strategy(Arc::clone(strategy));
        }
        if let Some(ttl) = options.ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = options.wait {
            request = request.wait(wait);
        }
        if let Some(renew) = options.renew {
            request = request.renew(renew);
        }
        if let Some(every) = options.renew_every {
            request = request.renew_every(every);
        }
        if let Some(min) = options.min_hold {
            request = request.min_hold(min);
        }
        if let Some(max) = options.max_hold {
            request = request.max_hold(max);
        }
        if let Some(max) = options.max_waiters {
            request = request.max_waiters(max);
        }
        if let Some(label) = &options.label {
            request = request.label(label.clone());
        }
        if let Some(profile) = &options.profile {
            request = request.profile(profile.clone());
        }
        request
    }

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

    /// Reads the body first, if the lock is to be taken after it.
    pub(crate) async fn read_first<B: Send + 'static>(&self, body: &mut B) -> Result<(), LockRejection> {
        let Some(limit) = self.options().after_body else { return Ok(()) };
        let template = self.keys().template();
        upload::read_first(body, limit).await.map_err(|why| match why {
            Unread::TooLarge => LockRejection::body(Outcome::BodyTooLarge, template),
            Unread::Incomplete => LockRejection::body(Outcome::BodyIncomplete, template),
            Unread::OfAnotherType => {
                self.misconfigured(
                    &"`after_body` reads a body of axum, and this service has another: wrap it in `axum::body::Body::new` \
                     outside of the layer",
                );
                LockRejection::misconfigured()
            }
        })
    }

    /// The answer to a request that is not served; `head` is there if the answers want to look at it.
    pub(crate) fn answer(&self, rejection: LockRejection, head: Option<&Parts>) -> Response {
        self.options().answers.response(rejection, head)
    }

    /// The answer to a request whose lock was not had, or was lost.
    pub(crate) fn refuse(&self, error: &LockError, version: Version) -> LockRejection {
        let (template, manager) = (self.keys().template(), &self.options().manager);
        let rejection = LockRejection::of_error(error, Some(template), version);
        match error.kind() {
            LockErrorKind::Contended | LockErrorKind::TimedOut | LockErrorKind::Overloaded => {}
            _ if rejection.outcome() == Outcome::Misconfigured => self.misconfigured(&manager.told(error)),
            // The lock itself has told of its loss, and a shutdown is no news.
            LockErrorKind::Lost | LockErrorKind::ShuttingDown => {}
            _ => {
                if let Some(left_out) = manager.admit_refusal(template) {
                    let error = manager.told(error);
                    tracing::warn!(lock.template = template, %error, left_out, "request refused for want of its lock");
                }
            }
        }
        rejection
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
            NoKey::Program(text) => {
                self.misconfigured(&text);
                LockRejection::misconfigured()
            }
            NoKey::Refused(_) if self.options().answers.are_grpc() => LockRejection::key_invalid(
                "The key of the lock cannot be made from this request.".into(),
                template,
            ),
            NoKey::Refused(answer) => return Some(*answer),
            NoKey::NoRoute if self.options().on_no_route == OnNoRoute::Refuse => {
                self.misconfigured(
                    &"the router knows no route for this request: mount the layer inside of `nest_service`, or on the routes \
                     with `route_layer`",
                );
                LockRejection::misconfigured()
            }
            NoKey::NoRoute | NoKey::Skip => return None,
        };
        Some(self.answer(rejection, Some(parts)))
    }

    /// A request without a route went on without a lock. A service that answers it with anything but "not found" is
    /// one whose work is not protected.
    pub(crate) fn passed_without_route(&self, status: http::StatusCode) {
        if status != http::StatusCode::NOT_FOUND
            && !self.options().told.no_route.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                lock.template = self.keys().template(),
                http.status = status.as_u16(),
                "a request for which the router knows no route was served without a lock: mount the layer inside of \
                 `nest_service`, or on the routes with `route_layer`"
            );
        }
    }

    fn misconfigured(&self, text: &dyn fmt::Display) {
        self.options().told.misconfigured(self.keys().template(), text);
    }
}

fn invalid(contradiction: String) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, contradiction)
}

fn check_waiting(options: &Options, strategy: Option<&dyn Strategy>) -> Result<()> {
    if let (Some(wait), Some(strategy)) = (options.wait, strategy)
        && !strategy.takes_wait_limit()
    {
        let name = strategy.name();
        return Err(invalid(format!(
            "wait is {wait:?}, but the strategy `{name}` takes no limit: drop one, or use `retry`"
        )));
    }
    let tries_again =
        |strategy: &dyn Strategy| matches!(strategy.decide(&Contention::new()), Decision::RetryAfter(_));
    let nobody_waits = match strategy {
        Some(strategy) => !tries_again(strategy),
        None => options.wait.is_none() && options.strategy.is_none() && options.profile.is_none(),
    };
    match options.max_waiters {
        Some(0) => Err(invalid("max_waiters is 0, so nobody could wait: drop it, and `wait` too".to_owned())),
        Some(max) if nobody_waits => Err(invalid(format!(
            "max_waiters is {max}, but no request waits: add `wait`, or a `strategy` that waits, or drop it"
        ))),
        _ => Ok(()),
    }
}

fn check_kind(layer: &LockLayer) -> Result<()> {
    let kind = layer.options.kind;
    if matches!(kind, Kind::Semaphore { permits: 0 }) {
        return Err(invalid("a semaphore with 0 permits admits nobody: give it at least 1".to_owned()));
    }
    if matches!(layer.key.0, Keys::All { .. }) && kind != Kind::Reentrant {
        return Err(invalid(format!(
            "kind is {kind}, but several keys have one holder each: drop `kind`, or lock one `key`"
        )));
    }
    Ok(())
}

fn check_times(options: &Options) -> Result<()> {
    match (options.min_hold, options.max_hold) {
        (Some(min), Some(max)) if min > max => {
            Err(invalid(format!("min_hold is {min:?}, longer than max_hold {max:?}: make one fit the other")))
        }
        _ => Ok(()),
    }
}

fn check_requests(layer: &LockLayer) -> Result<()> {
    let (options, keys) = (&layer.options, &layer.key.0);
    if keys.template().is_empty() {
        return Err(invalid("`key_fn` has no name: spans, metrics and the log need one".to_owned()));
    }
    if matches!(&options.methods, Methods::Only(methods) if methods.is_empty()) {
        return Err(invalid(
            "`methods` names none, so no request would be locked: name one, or drop it".to_owned(),
        ));
    }
    if options.after_body == Some(0) {
        return Err(invalid(
            "after_body is 0, so no body would be taken: give it a limit, or drop it".to_owned(),
        ));
    }
    if options.max_keys == 0 {
        return Err(invalid("max_keys is 0, so no request could be locked: give it at least 1".to_owned()));
    }
    if options.max_keys < keys.count() {
        return Err(invalid(format!(
            "max_keys is {}, but each request locks up to {}: give it at least as many",
            options.max_keys,
            keys.count()
        )));
    }
    Ok(())
}
