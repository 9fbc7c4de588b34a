//! Runs the steps of a request before its handler: decides whether to lock, makes the keys, counts them, and acquires
//! the lock.

use std::sync::Arc;

use axum_core::response::Response;
use http::request::Parts;
use lock_core::key::Key;
use lock_core::{LockGuard, OnLost};

use super::upload::{self, Unread};
use crate::answer::{LockRejection, Outcome};
use crate::config::Config;
use crate::extract::{LockHandle, Unlocked};
use crate::key::NoKey;
use crate::key_limit::KeyPermit;

/// The result of the admission: how the handler of the request runs.
pub(super) enum Admitted {
    /// The handler runs under this lock. `OnLost` says what happens to the handler if the lock is lost.
    Locked(LockGuard, OnLost, KeyPermit),
    /// The handler runs without a lock, because the options of the layer allow it.
    Unlocked(Option<KeyPermit>),
    /// The handler runs without a lock, because the router found no route.
    Unrouted,
}

/// Acquires the lock of a request. If the handler must not run, returns the answer to the client as an error.
pub(super) async fn admit<B: Send + 'static>(
    config: &Arc<Config>,
    parts: &mut Parts,
    body: &mut B,
) -> Result<Admitted, Box<Response>> {
    if !config.options().lock(parts) {
        return Ok(skip(parts));
    }
    let keys = match config.keys().render(parts).await {
        Ok(keys) => keys,
        Err(NoKey::Skip) => return Ok(skip(parts)),
        Err(why) => {
            return match config.no_key(why, parts).await {
                Some(answer) => Err(Box::new(answer)),
                None => Ok(Admitted::Unrouted),
            };
        }
    };
    let read = read_first(config, body).await;
    let counted = read.and_then(|()| count(config, &keys));
    let permit = counted.map_err(|rejection| Box::new(config.answer(rejection, Some(parts))))?;
    let label = config.label(parts).await;
    match config.request(keys, label).acquire_for_body().await {
        Ok((guard, on_lost)) => {
            parts.extensions.insert(LockHandle::new(guard.handle()));
            Ok(Admitted::Locked(guard, on_lost, permit))
        }
        Err(error) if config.runs_unlocked(&error) => {
            // An outer layer may have added the handle of its own lock. The handler must not use that handle as if this
            // layer's lock were held.
            parts.extensions.remove::<LockHandle>();
            parts.extensions.insert(Unlocked::StoreDown(Arc::clone(config)));
            Ok(Admitted::Unlocked(Some(permit)))
        }
        Err(error) => Err(Box::new(config.refused(&error, parts.version, Some(parts)))),
    }
}

/// Admits a request that the layer does not lock.
fn skip(parts: &mut Parts) -> Admitted {
    // If an outer layer has set a reason, that reason is kept, because it is more useful.
    parts.extensions.get_or_insert(Unlocked::Skipped);
    Admitted::Unlocked(None)
}

/// Reads the body if the option `after_body` is set.
async fn read_first<B: Send + 'static>(config: &Config, body: &mut B) -> Result<(), LockRejection> {
    let Some(limit) = config.options().after_body else { return Ok(()) };
    let template = config.keys().template();
    upload::read_first(body, limit).await.map_err(|why| match why {
        Unread::TooLarge => LockRejection::body(Outcome::BodyTooLarge, template),
        Unread::Incomplete => LockRejection::body(Outcome::BodyIncomplete, template),
        Unread::OfAnotherType => config.misconfigured(
            &"`after_body` reads an `axum::body::Body`, and this service has another body type: wrap the body with \
             `axum::body::Body::new` outside the layer",
        ),
    })
}

/// Counts the keys of a request. If the requests of the layer would then use too many keys, returns an error, which is
/// the answer to the client.
fn count(config: &Config, keys: &[Key]) -> Result<KeyPermit, LockRejection> {
    let options = config.options();
    let permit = options.key_limit.enter(keys, options.max_keys());
    permit.ok_or_else(|| LockRejection::too_many_keys(config.keys().template()))
}
