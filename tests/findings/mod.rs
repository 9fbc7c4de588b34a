//! Helpers for the findings of a doctor, which the tests of several stores use.

#![allow(dead_code, reason = "not every store uses all of it")]

use lock_core::{Finding, LockManager, Severity};
use lock_tests::{Bound, PATIENCE};

/// Returns the rules of this store and their severities, sorted.
pub(crate) async fn rules(locks: &LockManager) -> Vec<(&'static str, Severity)> {
    let found = locks.doctor().await.expect("the store answers");
    let own = |one: &&Finding| one.rule.starts_with("redis.") || one.rule.starts_with("redlock.");
    let mut rules: Vec<_> = found.iter().filter(own).map(|one| (one.rule, one.severity)).collect();
    rules.sort_unstable();
    rules
}

/// Runs the doctor until there is a finding of this rule, and returns the finding.
pub(crate) async fn found(locks: &LockManager, rule: &str) -> Finding {
    looked_for(locks, rule, |one| one.rule == rule).await
}

/// Returns a finding of this rule with this severity. Otherwise like [`found`].
pub(crate) async fn found_as(locks: &LockManager, rule: &str, severity: Severity) -> Finding {
    let what = format!("{severity} {rule}");
    looked_for(locks, &what, |one| one.rule == rule && one.severity == severity).await
}

/// Looks until there is a finding of this rule that says `text`, and returns it.
pub(crate) async fn found_saying(locks: &LockManager, rule: &str, text: &str) -> Finding {
    let what = format!("{rule} with {text}");
    looked_for(locks, &what, |one| one.rule == rule && one.found.contains(text)).await
}

/// While the servers elect, no request is answered.
async fn looked_for(locks: &LockManager, what: &str, is_meant: impl Fn(&Finding) -> bool) -> Finding {
    let bound = Bound::new(PATIENCE);
    loop {
        let answer = locks.doctor().await;
        if let Some(finding) = answer.iter().flatten().find(|one| is_meant(one)) {
            assert!(!finding.found.ends_with('.') && !finding.advice.ends_with('.'), "{finding}");
            return finding.clone();
        }
        bound.check(&format!("{what} is found: {answer:?}"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Runs the doctor until there is no finding of this rule.
pub(crate) async fn gone(locks: &LockManager, rule: &str) {
    let bound = Bound::new(PATIENCE);
    loop {
        let answer = locks.doctor().await;
        if answer.as_ref().is_ok_and(|found| found.iter().all(|one| one.rule != rule)) {
            return;
        }
        bound.check(&format!("{rule} is gone: {answer:?}"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
