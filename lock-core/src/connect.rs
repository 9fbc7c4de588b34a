//! From a URL to a store.

use std::sync::Arc;

use crate::backend::DynBackend;
use crate::backend::memory::Memory;
use crate::error::{LockError, LockErrorKind, Result};

/// The variable that names the store.
const VARIABLE: &str = "LOCK_URL";

/// Schemes of stores that are designed and not in this version: an answer better than "unknown".
const LATER: [&str; 4] = ["postgres", "postgresql", "zookeeper", "etcd"];

pub(crate) async fn from_env() -> Result<Arc<dyn DynBackend>> {
    match std::env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => connect(&url).await,
        Ok(_) | Err(std::env::VarError::NotPresent) => {
            tracing::warn!(
                "{VARIABLE} is not set: locks are kept in this process's memory and exclude nobody else"
            );
            Ok(Arc::new(Memory::new()))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(LockError::new(LockErrorKind::InvalidRequest, format!("{VARIABLE} is not text")))
        }
    }
}

pub(crate) async fn connect(url: &str) -> Result<Arc<dyn DynBackend>> {
    // Never the URL itself in an error: it may hold a password.
    let Some((scheme, rest)) = url.split_once("://") else {
        let detail =
            "a store is named by a URL such as `redis://127.0.0.1:6379/` or `memory://`: there is no `://`";
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    };
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "memory" if rest.is_empty() => Ok(Arc::new(Memory::new())),
        "memory" => {
            let detail = "`memory://` takes nothing behind it: every such manager has a store of its own";
            Err(LockError::new(LockErrorKind::InvalidRequest, detail))
        }
        known @ ("redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "unix" | "redis+cluster"
        | "rediss+cluster") => redis(&format!("{known}://{rest}")).await,
        "redlock" | "redlocks" => redlock(rest, scheme == "redlocks").await,
        later if LATER.contains(&later) => {
            let detail = format!(
                "`{later}://` is not in this version; there are `memory://`, `redis[s]://`, `redis+sentinel://`, `redis+cluster://`, `unix://` and `redlock[s]://`"
            );
            Err(LockError::new(LockErrorKind::Unsupported, detail))
        }
        unknown => {
            let scheme: String = unknown.chars().take(32).collect();
            let detail = format!(
                "no store has the scheme `{}`; there are `memory://`, `redis[s]://`, `redis+sentinel://`, `redis+cluster://`, `unix://` and `redlock[s]://`",
                scheme.escape_debug()
            );
            Err(LockError::new(LockErrorKind::InvalidRequest, detail))
        }
    }
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<Arc<dyn DynBackend>> {
    Ok(Arc::new(crate::backend::redis::Redis::connect(url).await?))
}

#[cfg(not(feature = "redis"))]
#[allow(clippy::unused_async, reason = "the twin with the feature is async")]
async fn redis(_url: &str) -> Result<Arc<dyn DynBackend>> {
    let detail = "this build has no Redis: add the feature `redis` to lock-core in Cargo.toml";
    Err(LockError::new(LockErrorKind::Unsupported, detail))
}

#[cfg(feature = "redlock")]
async fn redlock(rest: &str, tls: bool) -> Result<Arc<dyn DynBackend>> {
    use crate::backend::quorum::Quorum;
    use crate::backend::redis::voter::{RedlockUrl, Voter};

    let RedlockUrl { urls, names, options, node_timeout } = RedlockUrl::parse(rest, tls)?;
    if urls.len() == 1 {
        let detail = "a `redlock://` URL with one server is no majority of several: name three or five that share nothing, \
                      or write `redis://` for one";
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    }
    let voters = Voter::connect_all(urls.iter().map(String::as_str), options).await?;
    let mut quorum = Quorum::builder(voters).names(names);
    if let Some(node_timeout) = node_timeout {
        quorum = quorum.node_timeout(node_timeout);
    }
    Ok(Arc::new(quorum.build()?))
}

#[cfg(not(feature = "redlock"))]
#[allow(clippy::unused_async, reason = "the twin with the feature is async")]
async fn redlock(_rest: &str, _tls: bool) -> Result<Arc<dyn DynBackend>> {
    let detail = "this build has no Redlock: add the feature `redlock` to lock-core in Cargo.toml";
    Err(LockError::new(LockErrorKind::Unsupported, detail))
}

#[cfg(all(test, feature = "redlock"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_server_is_no_majority() {
        for url in ["redlock://user:s3cret@h1:6379/", "redlocks://user:s3cret@h1/2?max_ttl=10s"] {
            let Err(error) = connect(url).await else { panic!("{url} was accepted") };
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{url}");
            let text = error.to_string();
            assert!(text.contains("three or five") && text.contains("`redis://` for one"), "{text}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
