//! Checks the additional requirements on a server that votes.

use crate::backend::redis::error::Failure;
use crate::backend::redis::link::field;
use crate::error::LockErrorKind;

/// Checks the answer to `INFO`, after the general probe has accepted it.
pub(super) fn examine(info: &str) -> Result<(), Failure> {
    let version = field(info, "redis_version").unwrap_or("of an unknown version");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 7) {
        // Before version 7, the append-only file may contain the text of a script. A restart would load that script
        // without a bootstrap.
        return Err(Failure::new(
            LockErrorKind::Unsupported,
            format!("the server is Redis {version}; a voter of a quorum needs 7.0 or later"),
        ));
    }
    match field(info, "maxmemory_policy") {
        None | Some("noeviction") => Ok(()),
        Some(policy) => Err(Failure::new(
            LockErrorKind::Unsupported,
            format!(
                "maxmemory-policy is {policy}, so the server may throw locks away when it is short of memory; a voter \
                 of a quorum needs `CONFIG SET maxmemory-policy noeviction`"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_vote_is_refused() {
        let table = [
            ("redis_version:7.0.15\r\nmaxmemory_policy:noeviction", None),
            ("redis_version:7.2.4", None),
            ("redis_version:10.0.0\r\nmaxmemory_policy:noeviction", None),
            ("redis_version:6.2.14\r\nmaxmemory_policy:noeviction", Some("needs 7.0")),
            ("maxmemory_policy:noeviction", Some("needs 7.0")),
            ("redis_version:7.0.15\r\nmaxmemory_policy:allkeys-lru", Some("allkeys-lru")),
            ("redis_version:7.0.15\r\nmaxmemory_policy:volatile-ttl", Some("volatile-ttl")),
        ];
        for (info, expected) in table {
            match (examine(info), expected) {
                (Ok(()), None) => {}
                (Err(failure), Some(text)) => {
                    assert!(failure.is_permanent());
                    assert!(format!("{failure:?}").contains(text), "{info}: {failure:?}");
                }
                (outcome, _) => panic!("{info}: {outcome:?}"),
            }
        }
    }
}
