//! Rules about a server itself: its clock, its version, and its unreadable settings.

use super::Facts;
use crate::backend::redis::link::version_of;
use crate::backend::{Finding, Severity};

/// The largest difference between two synchronized clocks, in ms.
const RIGHT: u64 = 1_000;
/// The oldest recommended version.
const RECOMMENDED: (u32, u32) = (7, 0);

pub(super) fn clock(facts: &Facts) -> Option<Finding> {
    let off = facts.ahead.unsigned_abs();
    if off <= RIGHT {
        return None;
    }
    let side = if facts.ahead > 0 { "ahead of" } else { "behind" };
    let found = format!(
        "the server's clock is {}.{} s {side} this machine's: when it is set right, or after a failover to a server with \
         another clock, leases end too early or too late and fencing tokens may become smaller",
        off / 1_000,
        off % 1_000 / 100
    );
    let advice = "keep the clocks of all machines right: `timedatectl set-ntp true`; correct a large difference while no lock \
                  is held";
    Some(Finding::new(Severity::Warning, "redis.clock", found, advice))
}

pub(super) fn version(facts: &Facts) -> Option<Finding> {
    let version = facts.text("redis_version")?;
    if version_of(version)? >= RECOMMENDED {
        return None;
    }
    let found = format!(
        "the server is Redis {version}: 7.0 or later is recommended, and before 6.2.7 min-replicas-to-write does not stop the \
         scripts of a primary that was replaced"
    );
    Some(Finding::new(Severity::Note, "redis.version", found, "upgrade to Redis 7.0 or later, or to Valkey"))
}

/// Reports the settings that could not be read.
pub(super) fn unread(facts: &Facts) -> Option<Finding> {
    let unread = facts.unread();
    if unread.is_empty() {
        return None;
    }
    let (names, user) = (unread.join(", "), &facts.user);
    let (found, advice) = match facts.refused.as_deref() {
        Some("NOPERM") => (
            format!("the user `{user}` may not run `CONFIG GET` (NOPERM), so nothing was said about {names}"),
            format!("`ACL SETUSER {user} +config|get`, and `ACL SAVE` if there is an aclfile"),
        ),
        code => (
            format!("the server does not show {names} ({})", code.unwrap_or("no answer to `CONFIG GET`")),
            "look at these settings where the host of the server shows them".to_owned(),
        ),
    };
    Some(Finding::new(Severity::Note, "redis.unread", found, advice))
}
