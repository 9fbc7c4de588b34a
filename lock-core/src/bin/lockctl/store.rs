//! Connects to the store that the command line names.

use lock_core::{LockError, LockManager, ManagerBuilder};

use crate::args::Store;
use crate::exit::Fault;

impl Store {
    pub(crate) fn url(&self) -> Result<&str, Fault> {
        match self.url.as_deref() {
            Some("") => {
                Err(Fault::usage("LOCK_URL, or --url, is set and empty: expected the URL of a store"))
            }
            Some(url) => Ok(url),
            None => Err(Fault::usage("no store: set LOCK_URL, or write --url redis://127.0.0.1/")),
        }
    }

    pub(crate) async fn connect(&self) -> Result<LockManager, Fault> {
        let builder = ManagerBuilder::connect(self.url()?).await.map_err(of_connect)?;
        let locks = builder.namespace(self.namespace.as_str()).service("lockctl").build()?;
        if locks.store() == "memory" {
            eprintln!("lockctl: a lock on `memory://` is in this process alone, and excludes no other one");
        }
        Ok(locks)
    }
}

/// Returns the failure of a connect. A text that names a missing feature of this build is changed for a person who has
/// installed `lockctl`.
fn of_connect(error: LockError) -> Fault {
    match installed(&error.to_string()) {
        Some(text) => Fault::usage(text),
        None => error.into(),
    }
}

/// Replaces the advice to add a feature to `Cargo.toml` by a command. Returns `None` if the text has no such advice.
fn installed(text: &str) -> Option<String> {
    let (before, rest) = text.split_once("add the feature `")?;
    let (feature, rest) = rest.split_once('`')?;
    let rest = rest.strip_prefix(" to lock-core in Cargo.toml")?;
    Some(format!(
        "{before}run `cargo install lock-core --features cli,full`, or add `{feature}` to the features of the last \
         install{rest}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_told_to_who_has_no_cargo_toml() {
        let text =
            "unsupported: this build has no `redis://`: add the feature `redis` to lock-core in Cargo.toml";
        let expected = "unsupported: this build has no `redis://`: run `cargo install lock-core --features cli,full`, \
                        or add `redis` to the features of the last install";
        assert_eq!(installed(text).as_deref(), Some(expected));
        assert_eq!(installed("no store has the scheme `foo`"), None);
    }
}
