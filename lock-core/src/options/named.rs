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
        let detail = match suggest::nearest(name, known.iter().copied()) {
            Some(near) => format!("profile `{name}` is not there; did you mean `{near}`?"),
            None if known.is_empty() => format!(
                "profile `{name}` is not there: the manager has none, add it with `.profile(\"{name}\", ..)`"
            ),
            None => format!("profile `{name}` is not there; the manager has: {}", known.join(", ")),
        };
        LockError::new(LockErrorKind::InvalidRequest, detail)
    })
}
