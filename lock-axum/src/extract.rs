//! Defines extractors for the lock of a request.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use http::request::Parts;

use crate::answer::LockRejection;
use crate::config::Config;
use crate::{once, router};

/// Extracts a handle of the request's lock. The handle has the key and the remaining time of the lock, and reports a
/// loss. The handle can extend the lease, release the lock early, and make a guard for work that continues after the
/// answer.
///
/// The handle dereferences to [`lock_core::LockHandle`]. Under several layers, it is the handle of the innermost
/// layer's lock.
///
/// # Errors
/// A request without a lock is answered with 500, and the log names the route that lacks a
/// [`LockLayer`](crate::LockLayer). If the layer serves requests without a lock because the store does not answer, the
/// answer is 503. In both cases an `Option<LockHandle>` is `None` instead.
///
/// # Examples
/// ```
/// use lock_axum::LockHandle;
///
/// async fn pay(lock: LockHandle) -> String {
///     format!("{:?} left", lock.remaining())
/// }
/// # let _ = axum::routing::post::<_, _, ()>(pay);
/// ```
#[derive(Clone, Debug)]
pub struct LockHandle(lock_core::LockHandle);

/// The reason why a layer serves a request without a lock. The layer adds this value to the extensions of the request.
#[derive(Clone, Debug)]
pub(crate) enum Unlocked {
    /// The store did not answer.
    StoreDown(Arc<Config>),
    /// The options of the layer exempt the request from the lock.
    Skipped,
}

impl LockHandle {
    pub(crate) fn new(handle: lock_core::LockHandle) -> Self {
        Self(handle)
    }

    /// Returns the handle of `lock_core`.
    #[must_use]
    pub fn into_inner(self) -> lock_core::LockHandle {
        self.0
    }
}

impl Deref for LockHandle {
    type Target = lock_core::LockHandle;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LockHandle {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            let why = parts.extensions.get::<Unlocked>();
            if let Some(Unlocked::StoreDown(config)) = why {
                config.log_lock_needed();
                return LockRejection::store_unavailable();
            }
            let route = router::route(parts).unwrap_or("(none)");
            let fix = match why {
                Some(_) => "the `LockLayer` there skips such requests, so take an `Option<LockHandle>` on",
                None => "add a `LockLayer` to",
            };
            // Logged once, because the mistake is the same for every request.
            if once::is_first(format!("{} {route}", parts.method)) {
                tracing::error!(
                    http.route = route,
                    http.method = %parts.method,
                    "the handler extracts its lock, but runs without one: {fix} the route `{route}`"
                );
            }
            LockRejection::misconfigured()
        })
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for LockHandle {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

/// Extracts the fencing token of the request's lock. The protected resource compares tokens, so that it can refuse a
/// late write of an earlier owner.
///
/// The extractor may send one request to the store: see [`LockLayer::fencing`](crate::LockLayer::fencing). The token
/// dereferences to [`lock_core::FencingToken`].
///
/// # Errors
/// The errors of [`LockHandle`] apply. A request is also answered with 503 if its lock is lost or the store does not
/// answer, and with 500 if the store has no tokens. An `Option<FencingToken>` is `None` only if the request has no
/// lock. All other errors stay the same.
///
/// # Examples
/// ```
/// use lock_axum::FencingToken;
///
/// async fn pay(token: FencingToken) -> String {
///     let fence: i64 = token.get_i64();
///     format!("UPDATE account SET .., fence = {fence} WHERE id = 7 AND fence <= {fence}")
/// }
/// # let _ = axum::routing::post::<_, _, ()>(pay);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub lock_core::FencingToken);

impl Deref for FencingToken {
    type Target = lock_core::FencingToken;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<FencingToken> for lock_core::FencingToken {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for FencingToken {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let lock = <LockHandle as FromRequestParts<S>>::from_request_parts(parts, state).await?;
        match lock.fencing_token().await {
            Ok(token) => Ok(Self(token)),
            Err(error) => {
                let (manager, template) = lock.origin();
                if let Some(left_out) = manager.admit_refusal(template.unwrap_or_default()) {
                    let error = manager.redacted(&error);
                    tracing::warn!(lock.template = template, %error, left_out, "the request cannot get its fencing token");
                }
                Err(LockRejection::of_error(&error, None, parts.version))
            }
        }
    }
}

/// Extracts `None` for a request without a lock. A lock without a token is still an error.
impl<S: Send + Sync> OptionalFromRequestParts<S> for FencingToken {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, Self::Rejection> {
        if parts.extensions.get::<LockHandle>().is_none() {
            return Ok(None);
        }
        <Self as FromRequestParts<S>>::from_request_parts(parts, state).await.map(Some)
    }
}
