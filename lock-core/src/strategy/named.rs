//! Parses strategies from their names.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{
    Backoff, Contention, Decision, FailFast, Retry, RetryOrSkip, ShedAbove, Skip, Strategy, Wait, fail_fast,
    retry, retry_or_skip, shed_above, skip, wait,
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
pub struct NamedStrategy(BuiltIn);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BuiltIn {
    FailFast(FailFast),
    Skip(Skip),
    Retry(Retry),
    RetryOrSkip(RetryOrSkip),
    Wait(Wait),
    ShedAbove(ShedAbove<Retry>),
}

impl NamedStrategy {
    /// The names of the strategies that take no number.
    pub const NAMES: [&str; 5] = StrategyWord::NAMES;

    pub(crate) fn from_word(word: StrategyWord) -> Self {
        Self(match word {
            StrategyWord::FailFast => BuiltIn::FailFast(fail_fast()),
            StrategyWord::Skip => BuiltIn::Skip(skip()),
            StrategyWord::Retry => BuiltIn::Retry(retry()),
            StrategyWord::RetryOrSkip => BuiltIn::RetryOrSkip(retry_or_skip()),
            StrategyWord::Wait => BuiltIn::Wait(wait()),
            StrategyWord::ShedAbove(rate) => BuiltIn::ShedAbove(shed_above(retry(), rate)),
        })
    }

    /// Returns whether the strategy may skip the call, as `skip` and `retry_or_skip` do. The caller then needs a result
    /// that means "not done".
    #[must_use]
    pub fn skips(&self) -> bool {
        matches!(self.0, BuiltIn::Skip(_) | BuiltIn::RetryOrSkip(_))
    }

    fn inner(&self) -> &dyn Strategy {
        match &self.0 {
            BuiltIn::FailFast(inner) => inner,
            BuiltIn::Skip(inner) => inner,
            BuiltIn::Retry(inner) => inner,
            BuiltIn::RetryOrSkip(inner) => inner,
            BuiltIn::Wait(inner) => inner,
            BuiltIn::ShedAbove(inner) => inner,
        }
    }
}

impl Default for NamedStrategy {
    fn default() -> Self {
        Self(BuiltIn::Retry(retry()))
    }
}

impl Strategy for NamedStrategy {
    fn decide(&self, contention: &Contention) -> Decision {
        self.inner().decide(contention)
    }

    fn name(&self) -> Cow<'static, str> {
        self.inner().name()
    }

    fn takes_wait_limit(&self) -> bool {
        self.inner().takes_wait_limit()
    }

    fn uses_rate(&self) -> bool {
        self.inner().uses_rate()
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        self.inner().with_backoff(backoff)
    }
}

/// Writes a text from which this strategy can be parsed again.
impl fmt::Display for NamedStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BuiltIn::ShedAbove(inner) => f.pad(&StrategyWord::ShedAbove(inner.rate).to_string()),
            _ => f.pad(&self.name()),
        }
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
