//! Finds profiles by name.

use std::collections::BTreeMap;

use super::profile::Profile;
use crate::error::{LockError, LockErrorKind, Result};

/// The profiles, keyed by name.
pub(crate) type Named = BTreeMap<String, Profile>;

/// Returns the profile `name`, or an error that suggests another name.
pub(crate) fn find<'a>(named: &'a Named, name: &str) -> Result<&'a Profile> {
    named.get(name).ok_or_else(|| {
        let known: Vec<_> = named.keys().map(String::as_str).collect();
        let near = known.iter().max_by(|a, b| likeness(name, a).total_cmp(&likeness(name, b)));
        let detail = match near {
            None => format!(
                "profile `{name}` is not there: the manager has none, add it with `.profile(\"{name}\", ..)`"
            ),
            Some(near) if likeness(name, near) > 0.8 => {
                format!("profile `{name}` is not there; did you mean `{near}`?")
            }
            Some(_) => format!("profile `{name}` is not there; the manager has: {}", known.join(", ")),
        };
        LockError::new(LockErrorKind::InvalidRequest, detail)
    })
}

fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(one, other)
}
