//! Returns the scripts of the Redis store as a server receives them, for the simulation of this workspace. This module
//! is not part of the public interface.

use crate::backend::redis::scripts::Script;

/// Returns the text of the script with this name, such as `AcquireAll`, as a single server receives it.
#[must_use]
pub fn shipped(name: &str) -> Option<String> {
    let script = Script::ALL.into_iter().find(|script| format!("{script:?}") == name)?;
    Some(script.text().to_owned())
}

/// Returns the text of the bootstrap script of a voter.
#[must_use]
pub fn voter_boot() -> String {
    crate::backend::redlock::boot_script().to_owned()
}
