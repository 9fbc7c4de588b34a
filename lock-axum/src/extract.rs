//! What handlers can ask about the lock they run under.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, OptionalFromRequestParts};
use http::request::Parts;

use crate::answer::LockRejection;
use crate::config::Config;
use crate::once;

/// Extracts a view of the lock that the request runs under: its key, what is left of it, whether it is lost.
///
/// It dereferences to [`lock_core::LockHandle`]. Of several nested layers, the innermost counts.
///
/// # Errors
/// A request without a lock is answered with 500, and the log says which route lacks a
/// [`LockLayer`](crate::LockLayer); with 503 where the layer serves requests without a lock while the store does not
/// answer. `Option<LockHandle>` is `None` then.
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

/// Says in a request why its layer serves it without a lock.
#[derive(Clone, Debug)]
pub(crate) enum Unlocked {
    /// The store did not answer.
    StoreDown(Arc<Config>),
    /// The layer does not concern it.
    Skipped,
}

impl LockHandle {
    pub(crate) fn new(handle: lock_core::LockHandle) -> Self {
        Self(handle)
    }

    /// The handle itself.
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
                config.tell_lock_is_needed();
                return LockRejection::store_unavailable();
            }
            let route = parts.extensions.get::<MatchedPath>().map_or("(none)", MatchedPath::as_str);
            let mend = match why {
                Some(_) => "the `LockLayer` there skips such requests, so take an `Option` of it, on",
                None => "add `LockLayer` to",
            };
            // It is the same for each request.
            if once::is_news(format!("{} {route}", parts.method)) {
                tracing::error!(
                    http.route = route,
                    http.method = %parts.method,
                    "the handler asks for its lock and runs under none: {mend} the route `{route}`"
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

/// Extracts the fencing token of the lock that the request runs under: what the protected resource compares, so that a
/// late write of an earlier owner is refused. May ask the store once. It dereferences to [`lock_core::FencingToken`], which is
/// inside.
///
/// # Errors
/// As [`LockHandle`], with `Option<FencingToken>` too; 503 when the lock is lost or the store does not answer, 500 when the store gives no tokens.
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
                    let error = manager.told(&error);
                    tracing::warn!(lock.template = template, %error, left_out, "no fencing token for the request");
                }
                Err(LockRejection::of_error(&error, None, parts.version))
            }
        }
    }
}

/// `None` for a request without a lock; a lock without a token is an error all the same.
impl<S: Send + Sync> OptionalFromRequestParts<S> for FencingToken {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, Self::Rejection> {
        if parts.extensions.get::<LockHandle>().is_none() {
            return Ok(None);
        }
        <Self as FromRequestParts<S>>::from_request_parts(parts, state).await.map(Some)
    }
}
