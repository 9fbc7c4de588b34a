//! The findings about the health of a store.

use std::fmt;

/// The severity of a [finding](Finding). A larger value is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Severity {
    /// Good to know: the configuration limits what this store can promise.
    Note,
    /// Locks work, but one more fault may lose or delay some of them.
    Warning,
    /// Locks may be lost or held twice, or cannot be acquired.
    Danger,
}

/// Writes `note`, `warning` or `danger`.
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Danger => "danger",
        })
    }
}

/// A problem that [`LockManager::doctor`](crate::LockManager::doctor) found, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// The name of the rule, such as `redis.eviction`. The name stays the same from version to version.
    pub rule: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The server, the node or the key that the finding is about. Empty if the finding is about the whole store.
    pub about: String,
    /// The problem that was found, with the numbers.
    pub found: String,
    /// The advice: a setting or a statement that can be copied.
    pub advice: String,
}

impl Finding {
    /// Makes a finding about the whole store, for authors of backends.
    #[must_use]
    pub fn new(
        severity: Severity,
        rule: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { rule, severity, about: String::new(), found: found.into(), advice: advice.into() }
    }

    /// Sets the server, the node or the key that the finding is about, for authors of backends.
    #[must_use]
    pub fn about(mut self, name: impl Into<String>) -> Self {
        self.about = name.into();
        self
    }
}

/// Writes one line: `danger redis.eviction (10.0.0.7:6379): .. Do: ..`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.severity, self.rule)?;
        if !self.about.is_empty() {
            write!(f, " ({})", self.about)?;
        }
        write!(f, ": {}. Do: {}", self.found, self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line() {
        let whole = Finding::new(Severity::Danger, "a.b", "it is so", "change it");
        assert_eq!(whole.to_string(), "danger a.b: it is so. Do: change it");
        assert_eq!(whole.about("s:1").to_string(), "danger a.b (s:1): it is so. Do: change it");
        assert!(Severity::Note < Severity::Warning && Severity::Warning < Severity::Danger);
    }
}
