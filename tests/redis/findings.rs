//! The findings of a store: which there are, and that a fault makes one.

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

/// Looks until there is a finding of this rule and severity, and returns it.
pub(crate) async fn found(locks: &LockManager, rule: &str, severity: Severity) -> Finding {
    let bound = Bound::new(PATIENCE);
    loop {
        let answer = locks.doctor().await;
        let is_meant = |one: &Finding| one.rule == rule && one.severity == severity;
        if let Some(finding) = answer.iter().flatten().find(|one| is_meant(one)) {
            assert!(!finding.found.ends_with('.') && !finding.advice.ends_with('.'), "{finding}");
            return finding.clone();
        }
        bound.check(&format!("{severity} {rule} is found: {answer:?}"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Looks until there is no finding of this rule.
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
