//! Connects to the store that a URL names.

use std::env::VarError;
use std::sync::Arc;

use crate::backend::memory::Memory;
use crate::backend::{Backend, BoxFuture, DynBackend};
use crate::error::{LockError, LockErrorKind, Result};
use crate::words::suggest;

/// The environment variable with the URL of the store.
const VARIABLE: &str = "LOCK_URL";

/// A function that connects to the store that a URL names.
type Connect = for<'a> fn(&'a str) -> BoxFuture<'a, Result<Arc<dyn DynBackend>>>;

/// All stores. Each entry has the schemes of the store's URLs, the feature that the store needs, and the function that
/// connects.
const STORES: &[Store] = &[
    Store { connect: Some(|url| open(memory(url))), ..Store::new(&["memory"], "") },
    Store {
        #[cfg(feature = "redis")]
        connect: Some(|url| open(crate::backend::redis::Redis::connect(url))),
        ..Store::new(&["redis[s]", "redis[s]+sentinel", "redis[s]+cluster", "unix"], "redis")
    },
    Store {
        #[cfg(feature = "redlock")]
        connect: Some(|url| open(crate::backend::redlock::connect(url))),
        ..Store::new(&["redlock[s]"], "redlock")
    },
    Store {
        #[cfg(feature = "etcd")]
        connect: Some(|url| open(crate::backend::etcd::Etcd::connect(url))),
        ..Store::new(&["etcd[s]"], "etcd")
    },
    Store {
        #[cfg(feature = "postgres")]
        connect: Some(|url| Box::pin(crate::backend::postgres::connect(url))),
        ..Store::new(&["postgres[ql]"], "postgres")
    },
    Store {
        #[cfg(feature = "zookeeper")]
        connect: Some(|url| open(crate::backend::zookeeper::ZooKeeper::connect(url))),
        ..Store::new(&["zookeeper[s]"], "zookeeper")
    },
];

/// A store that a URL can name.
struct Store {
    /// The allowed texts before the `://` of a URL. The part in brackets is optional.
    schemes: &'static [&'static str],
    /// The feature of the crate that this store needs. The text is empty if the store needs none.
    feature: &'static str,
    /// `None` if this build does not have the store.
    connect: Option<Connect>,
}

impl Store {
    const fn new(schemes: &'static [&'static str], feature: &'static str) -> Self {
        Self { schemes, feature, connect: None }
    }

    fn has(&self, name: &str) -> bool {
        self.schemes.iter().any(|scheme| is_of(scheme, name))
    }
}

/// Returns whether `name` equals `scheme`, with or without the optional part in brackets.
fn is_of(scheme: &str, name: &str) -> bool {
    names(scheme).iter().any(|known| known == name)
}

/// Returns `scheme` without and with the optional part in brackets.
fn names(scheme: &str) -> [String; 2] {
    let (before, rest) = scheme.split_once('[').unwrap_or((scheme, ""));
    let (option, after) = rest.split_once(']').unwrap_or((rest, ""));
    [format!("{before}{after}"), format!("{before}{option}{after}")]
}

/// Returns the scheme that `name` probably misspells, if there is one.
fn nearest(name: &str) -> Option<String> {
    let names: Vec<String> =
        STORES.iter().flat_map(|store| store.schemes).flat_map(|scheme| names(scheme)).collect();
    suggest::nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Returns the list of schemes of this version, for an error text.
fn known() -> String {
    let schemes = STORES.iter().flat_map(|store| store.schemes);
    let shown: Vec<_> = schemes.map(|scheme| format!("`{scheme}://`")).collect();
    match shown.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => shown.concat(),
    }
}

/// Connects to the store that the environment names. If the variable is not set, connects to `default`; without a
/// default, returns an error. A variable that is set but empty is an error, even with a default: usually a deployment
/// template lacks its value, and locks in a default such as `memory://` would exclude no other process.
pub(super) async fn from_env(default: Option<&str>) -> Result<Arc<dyn DynBackend>> {
    let invalid = |detail: String| Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    match (std::env::var(VARIABLE), default) {
        (Ok(url), _) if url.trim().is_empty() => invalid(format!(
            "the variable {VARIABLE} is set and empty: expected the URL of a store, such as `redis://127.0.0.1:6379/`, \
             or `memory://` for locks in this process only"
        )),
        (Ok(url), _) => connect(&url).await,
        (Err(VarError::NotPresent), Some(default)) => {
            let scheme = default.split_once("://").map_or("", |(scheme, _)| scheme);
            tracing::info!("{VARIABLE} is not set: the locks are kept in the default store, `{scheme}://`");
            connect(default).await
        }
        (Err(VarError::NotPresent), None) => invalid(format!(
            "the variable {VARIABLE} is not set: expected the URL of a store, such as `redis://127.0.0.1:6379/`; a \
             program that may run without it calls `from_env_or(\"memory://\")`"
        )),
        (Err(VarError::NotUnicode(_)), _) => invalid(format!("the variable {VARIABLE} is not text")),
    }
}

pub(super) async fn connect(url: &str) -> Result<Arc<dyn DynBackend>> {
    // An error text never contains the whole URL, because a URL may contain a password.
    let Some((name, rest)) = url.split_once("://") else {
        let detail =
            "a store is named by a URL such as `redis://127.0.0.1:6379/` or `memory://`: there is no `://`";
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    };
    let name = name.to_ascii_lowercase();
    if name.starts_with(char::is_whitespace) {
        let detail = "the URL of the store begins with white space: remove it";
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    }
    let Some(store) = STORES.iter().find(|store| store.has(&name)) else {
        let shown: String = name.chars().take(32).collect();
        let instead = match nearest(&name) {
            Some(near) => format!("did you mean `{near}://`?"),
            None => format!("there are {}", known()),
        };
        let detail = format!("no store has the scheme `{}`; {instead}", shown.escape_debug());
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    };
    if let Some(connect) = store.connect {
        return connect(&format!("{name}://{rest}")).await;
    }
    let feature = store.feature;
    let detail =
        format!("this build has no `{name}://`: add the feature `{feature}` to lock-core in Cargo.toml");
    Err(LockError::new(LockErrorKind::Unsupported, detail))
}

/// Connects to a store, and returns it as a trait object, because each store has its own type.
fn open<'a, B: Backend>(
    connecting: impl Future<Output = Result<B>> + Send + 'a,
) -> BoxFuture<'a, Result<Arc<dyn DynBackend>>> {
    Box::pin(async move {
        let backend: Arc<dyn DynBackend> = Arc::new(connecting.await?);
        Ok(backend)
    })
}

/// Returns a new memory store. Nothing may follow `://` in its URL, because the store connects to no server.
fn memory(url: &str) -> impl Future<Output = Result<Memory>> + use<> {
    let named = url.split_once("://").is_some_and(|(_, rest)| !rest.is_empty());
    let detail = "`memory://` takes nothing behind it: every such manager has a store of its own";
    let made =
        if named { Err(LockError::new(LockErrorKind::InvalidRequest, detail)) } else { Ok(Memory::new()) };
    std::future::ready(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_brackets_may_be_left_out() {
        for (scheme, name, is) in [
            ("unix", "unix", true),
            ("unix", "unixs", false),
            ("redis[s]", "redis", true),
            ("redis[s]", "rediss", true),
            ("redis[s]", "redis[s]", false),
            ("redis[s]", "redisss", false),
            ("redis[s]", "redis+sentinel", false),
            ("redis[s]+sentinel", "redis+sentinel", true),
            ("redis[s]+sentinel", "rediss+sentinel", true),
            ("redis[s]+sentinel", "redisx+sentinel", false),
            ("postgres[ql]", "postgresql", true),
            ("postgres[ql]", "postgresq", false),
        ] {
            assert_eq!(is_of(scheme, name), is, "{scheme}: {name}");
        }
    }

    #[test]
    fn no_name_belongs_to_two_stores() {
        for scheme in STORES.iter().flat_map(|store| store.schemes) {
            for name in [scheme.replace(['[', ']'], ""), scheme.replace("[s]", "").replace("[ql]", "")] {
                assert_eq!(STORES.iter().filter(|store| store.has(&name)).count(), 1, "{name}");
            }
        }
        assert!(
            known().starts_with("`memory://`, `redis[s]://`") && known().ends_with(" and `zookeeper[s]://`")
        );
    }

    #[tokio::test]
    async fn a_scheme_that_no_store_has_is_told_with_the_nearest() {
        for (url, expected) in [
            ("reddis://u:s3cret@h/", "no store has the scheme `reddis`; did you mean `redis://`?"),
            ("redis+sentinal://h/p", "did you mean `redis+sentinel://`?"),
            ("rediss+clusters://h", "did you mean `rediss+cluster://`?"),
            ("postgress://h/d", "did you mean `postgres://`?"),
            ("mem://", "did you mean `memory://`?"),
            ("foo://u:s3cret@h", "no store has the scheme `foo`; there are `memory://`, `redis[s]://`"),
            ("https://h", "no store has the scheme `https`; there are "),
            (" redis://u:s3cret@h", "the URL of the store begins with white space: remove it"),
        ] {
            let Err(error) = connect(url).await else { panic!("{url} was accepted") };
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("s3cret"), "{url}: {text}");
        }
    }

    /// If this build lacks the store, the error names the missing feature. Otherwise the URL is refused for another
    /// reason.
    #[tokio::test]
    async fn a_store_that_the_build_lacks_is_told_with_its_feature() {
        for (url, feature, on) in [
            ("redis+cluster://user:s3cret@[", "`redis`", cfg!(feature = "redis")),
            ("redlocks://user:s3cret@a,b", "`redlock`", cfg!(feature = "redlock")),
            ("postgresql://user:s3cret@[", "`postgres`", cfg!(feature = "postgres")),
            ("etcds://user:s3cret@[", "`etcd`", cfg!(feature = "etcd")),
            ("zookeeper://user:s3cret@[", "`zookeeper`", cfg!(feature = "zookeeper")),
        ] {
            let Err(error) = connect(url).await else { panic!("{url} was accepted") };
            let text = error.to_string();
            let lacks =
                text.contains("this build has no") && text.contains(&format!("the feature {feature}"));
            assert_eq!(lacks, !on, "{text}");
            assert_eq!(error.kind() == LockErrorKind::Unsupported, !on, "{text}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
