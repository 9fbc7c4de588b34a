//! Finds profiles by name.

use std::collections::BTreeMap;

use super::profile::Profile;
use crate::error::{LockError, LockErrorKind, Result};
use crate::words::suggest;

/// The profiles, keyed by name.
pub(crate) type Named = BTreeMap<String, Profile>;

/// Returns the profile `name`, or an error that suggests another name.
pub(crate) fn find<'a>(named: &'a Named, name: &str) -> Result<&'a Profile> {
    named.get(name).ok_or_else(|| {
        let known: Vec<_> = named.keys().map(String::as_str).collect();
        let detail = if known.is_empty() {
            format!(
                "profile `{name}` is not there: the manager has none, add it with `.profile(\"{name}\", ..)`"
            )
        } else {
            let near = suggest::did_you_mean(name, known.iter().copied());
            format!("profile `{name}` is not there; the manager has: {}{near}", known.join(", "))
        };
        LockError::new(LockErrorKind::InvalidRequest, detail)
    })
}
