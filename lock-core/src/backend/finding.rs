//! The findings about the health of a store.

use std::fmt;

/// How much a [finding](Finding) matters. A larger value matters more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Severity {
    /// Good to know: a limit of what this store promises as it is set up.
    Note,
    /// Locks work, and one more mishap may lose some, or make them wait.
    Warning,
    /// Locks may be lost or held twice, or cannot be taken.
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

/// One thing that [`LockManager::doctor`](crate::LockManager::doctor) found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// The name of the rule, such as `redis.eviction`. It stays the same from version to version.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The server, the node or the key that it is about; empty if it is the whole store.
    pub about: String,
    /// What was found, with the numbers.
    pub found: String,
    /// What to do: a setting or a statement that can be copied.
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

    /// Names the server, the node or the key that it is about, for authors of backends.
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
