//! Parses strategies from their names.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{
    Backoff, Contention, Decision, Strategy, fail_fast, retry, retry_or_skip, shed_above, skip, wait,
};
use crate::error::{LockError, LockErrorKind};
use crate::words::strategy::StrategyWord;
use crate::words::suggest;

/// A built-in strategy with its defaults, parsed from its name: `fail_fast`, `skip`, `retry`, `retry_or_skip`, `wait`,
/// or `shed_above(200)` with a rate.
///
/// Use this type for configuration files and environment variables. The default is `retry`.
///
/// # Examples
///
/// ```
/// use lock_core::strategy::{NamedStrategy, Strategy};
///
/// let strategy: NamedStrategy = "skip".parse()?;
/// assert!(strategy.skips());
/// assert_eq!(strategy.name(), "skip");
/// assert_eq!("shed_above(200)".parse::<NamedStrategy>()?.to_string(), "shed_above(200)");
/// let error = "fail-fast".parse::<NamedStrategy>().unwrap_err();
/// assert!(error.to_string().contains("did you mean `fail_fast`?"));
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedStrategy(StrategyWord);

impl NamedStrategy {
    /// The names of the strategies that take no number.
    pub const NAMES: [&str; 5] = StrategyWord::NAMES;

    pub(crate) fn from_word(word: StrategyWord) -> Self {
        Self(word)
    }

    /// Returns whether the strategy may skip the call, as `skip` and `retry_or_skip` do. The caller then needs a result
    /// that means "not done".
    #[must_use]
    pub fn skips(&self) -> bool {
        self.0.skips()
    }

    /// Calls `call` with the strategy that the word names.
    fn with<R>(&self, call: impl FnOnce(&dyn Strategy) -> R) -> R {
        match self.0 {
            StrategyWord::FailFast => call(&fail_fast()),
            StrategyWord::Skip => call(&skip()),
            StrategyWord::Retry => call(&retry()),
            StrategyWord::RetryOrSkip => call(&retry_or_skip()),
            StrategyWord::Wait => call(&wait()),
            StrategyWord::ShedAbove(rate) => call(&shed_above(retry(), rate)),
        }
    }
}

impl Default for NamedStrategy {
    fn default() -> Self {
        Self(StrategyWord::Retry)
    }
}

impl Strategy for NamedStrategy {
    fn decide(&self, contention: &Contention) -> Decision {
        self.with(|strategy| strategy.decide(contention))
    }

    fn name(&self) -> Cow<'static, str> {
        self.with(|strategy| strategy.name())
    }

    fn takes_wait_limit(&self) -> bool {
        self.with(|strategy| strategy.takes_wait_limit())
    }

    fn uses_rate(&self) -> bool {
        self.with(|strategy| strategy.uses_rate())
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        self.with(|strategy| strategy.with_backoff(backoff))
    }
}

/// Writes a text from which this strategy can be parsed again.
impl fmt::Display for NamedStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl FromStr for NamedStrategy {
    type Err = LockError;

    fn from_str(name: &str) -> Result<Self, LockError> {
        StrategyWord::from_name(name).map(Self::from_word).ok_or_else(|| unknown(name))
    }
}

fn unknown(name: &str) -> LockError {
    let hint = nearest(name).map(|word| format!("did you mean `{word}`? ")).unwrap_or_default();
    let all = NamedStrategy::NAMES.map(|word| format!("`{word}`")).join(", ");
    let detail = format!("there is no strategy {name:?}: {hint}expected one of {all}, or `shed_above(200)`");
    LockError::new(LockErrorKind::InvalidRequest, detail)
}

/// Returns the known name that is most similar to `name`, if it is similar enough.
fn nearest(name: &str) -> Option<&'static str> {
    // Refuse a text that is much longer than every name: it is similar to none of them, and the comparison takes
    // quadratic time.
    let name = Some(name).filter(|name| name.len() <= 32)?.to_lowercase();
    suggest::nearest(&name, NamedStrategy::NAMES)
}
