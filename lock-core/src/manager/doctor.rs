//! Finds problems of a store's setup and use that endanger locks, for operators.

use std::cmp::Reverse;

use super::held_long;
use crate::backend::{Finding, LeaseScope, LockInfo, Severity};
use crate::clock;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::Result;
use crate::manager::LockManager;

/// The largest number of keys with a finding of their own. The other keys are only counted.
const NAMED: usize = 10;

impl LockManager {
    /// Checks the settings of the store and its locks for problems that endanger locks. Each finding says what to do
    /// about the problem. The check changes nothing. The findings are sorted by [severity](Severity), dangers first.
    /// The list is empty if there is no problem.
    ///
    /// The page of each store ([Redis](crate::backend::redis), [Postgres](crate::backend::postgres),
    /// [etcd](crate::backend::etcd), [ZooKeeper](crate::backend::zookeeper), [Redlock](crate::backend::redlock)) lists
    /// its checks. Some checks need a permission that locks do not need. If the store's user lacks this permission, a
    /// [note](Severity::Note) names it. Do not call this in a health probe, because it makes several requests, and
    /// lists all locks of the namespace, as [`locks`](Self::locks) does. A probe should call [`ping`](Self::ping).
    ///
    /// On every store, the check also has these rules:
    ///
    /// | rule | severity | what |
    /// | --- | --- | --- |
    /// | `store.refuses` | danger | a [ping](Self::ping) fails, so no lock can be acquired now |
    /// | `store.degraded` | warning | a ping reports a [degraded](crate::backend::Ping::degraded) part of the store |
    /// | `locks.without_expiry` | warning | another program holds a key of the namespace with a lock that never expires |
    /// | `locks.held_long` | note | a lock with waiters is held for unusually long; see below |
    /// | `locks.unlisted` | note | the locks cannot be listed |
    ///
    /// `locks.without_expiry` needs a [namespace](crate::ManagerBuilder::namespace), because without one the locks of other
    /// programs are not listed.
    ///
    /// `locks.held_long` compares locks whose keys differ only in the part after the last `:`. At least 20 of them must
    /// be held. A lock with waiters is reported if it is held for more than 10 s, and for more than ten times the
    /// median. The store must show [when it granted the lock](crate::HolderInfo::held_since); if the store's clock
    /// differs from the clock of this process, the age is wrong by the difference. The lock of a leader may be reported
    /// too, if other candidates wait.
    ///
    /// # Errors
    /// [`Unavailable`](LockErrorKind::Unavailable) if the store does not answer. [`NoQuorum`](LockErrorKind::NoQuorum)
    /// if no server of `redlock://` answers. [`ShuttingDown`](LockErrorKind::ShuttingDown) after
    /// [`shutdown`](Self::shutdown). [`Unsupported`](LockErrorKind::Unsupported) if a store of your own has no
    /// [`doctor`](crate::backend::Backend::doctor).
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockManager, Severity};
    ///
    /// for finding in LockManager::in_memory().doctor().await? {
    ///     println!("{finding}"); // note memory.one_process: locks exclude the tasks of this process alone. Do: ..
    ///     assert!(finding.severity < Severity::Danger);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn doctor(&self) -> Result<Vec<Finding>> {
        let engine = self.engine();
        engine.check_open()?;
        let mut findings = engine.inside(engine.store.backend.doctor_dyn()).await?;
        match engine.inside(engine.store.backend.ping_dyn()).await {
            Ok(ping) => {
                let new: Vec<_> =
                    ping.degraded.iter().filter(|sentence| !is_told(sentence, &findings)).collect();
                findings.extend(new.into_iter().map(|sentence| degraded(sentence)));
            }
            Err(error) => findings.push(refuses(&error.to_string())),
        }
        if engine.capability.lists {
            match self.locks().await {
                Ok(listed) => {
                    if engine.capability.lease == LeaseScope::Grant {
                        findings.extend(without_expiry(&listed.locks));
                    }
                    findings.extend(held_long::find(&listed.locks, clock::wall()));
                }
                Err(error) => findings.push(unlisted(&error.to_string())),
            }
        }
        findings.sort_by_key(|finding| Reverse(finding.severity));
        Ok(findings)
    }
}

/// Returns whether a finding already reports the server that is named in `sentence`, a text from the ping.
fn is_told(sentence: &str, findings: &[Finding]) -> bool {
    // A name that a digit follows does not count: `a:6379` does not name `a:637`.
    let names = |name: &str| {
        let ends = sentence.match_indices(name).map(|(at, name)| &sentence[at + name.len()..]);
        ends.into_iter().any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let away = |finding: &&Finding| matches!(finding.rule, "redlock.node" | "redis.node");
    findings.iter().filter(away).flat_map(|finding| finding.about.split(", ")).any(names)
}

fn degraded(sentence: &str) -> Finding {
    let advice = "look at the server that it names; locks work meanwhile";
    Finding::new(Severity::Warning, "store.degraded", sentence, advice)
}

fn refuses(error: &str) -> Finding {
    let advice = "do what the text says; no lock can be taken until then";
    Finding::new(Severity::Danger, "store.refuses", error, advice)
}

fn unlisted(error: &str) -> Finding {
    let advice = "give the user the rights to list the locks, so that an operator sees who holds what";
    Finding::new(Severity::Note, "locks.unlisted", format!("the locks cannot be listed: {error}"), advice)
}

/// Finds keys that another program holds without an expiry. Every lease of this library has an expiry.
fn without_expiry(locks: &[LockInfo]) -> Vec<Finding> {
    let for_ever: Vec<&LockInfo> = locks
        .iter()
        .filter(|lock| {
            lock.holders.iter().any(|holder| holder.record.is_none() && holder.remaining.is_none())
        })
        .collect();
    let advice =
        "if its holder is gone, free the key with `force_release`; if it lives, give its lock an expiry";
    let finding = |found: String| Finding::new(Severity::Warning, "locks.without_expiry", found, advice);
    let named = for_ever.iter().take(NAMED).map(|lock| {
        finding(
            "another program holds the key, and its lock has no expiry: if that program died, the key stays \
                 locked"
                .to_owned(),
        )
        .about(&lock.key)
    });
    let mut findings: Vec<Finding> = named.collect();
    if let Some(more) = for_ever.len().checked_sub(NAMED).filter(|more| *more > 0) {
        findings.push(finding(format!("{more} more keys are held by other programs without an expiry")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::{GrantId, HolderInfo, Mode};

    fn held(key: usize, remaining: Option<Duration>) -> LockInfo {
        let id: GrantId = "0123456789abcdef0123456789abcdef01234567".parse().expect("an id");
        LockInfo::new(format!("k{key}"), Mode::Exclusive, vec![HolderInfo::new(id, None, remaining, false)])
    }

    #[test]
    fn a_server_that_is_away_is_told_once() {
        let away =
            |rule, about: &str| vec![Finding::new(Severity::Danger, rule, "away", "start it").about(about)];
        for (rule, about, told) in [
            ("redlock.node", "a:6379", true),
            ("redlock.node", "b:1, a:6379", true),
            ("redis.node", "a:637", false),
            ("redis.node", "b:6379", false),
            // This finding reports evictions, and not that the node does not answer.
            ("redis.eviction", "a:6379", false),
        ] {
            assert_eq!(is_told("redis at a:6379: no answer", &away(rule, about)), told, "{rule} {about}");
        }
    }

    #[test]
    fn keys_without_an_expiry_are_named_and_the_rest_is_counted() {
        let table =
            [(0, 0, None), (1, 1, None), (NAMED, NAMED, None), (NAMED + 3, NAMED + 1, Some("3 more keys"))];
        for (keys, findings, last) in table {
            let mut locks: Vec<_> = (0..keys).map(|key| held(key, None)).collect();
            locks.push(held(99, Some(Duration::from_secs(1))));
            let found = without_expiry(&locks);
            assert_eq!(found.len(), findings, "{keys}");
            assert!(found.iter().take(NAMED).enumerate().all(|(at, one)| one.about == format!("k{at}")));
            if let Some(last) = last {
                assert!(found.last().is_some_and(|one| one.found.contains(last)), "{keys}: {found:?}");
            }
        }
    }
}
