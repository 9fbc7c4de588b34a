//! Defines the words of the option `strategy`.

use std::fmt;

use super::suggest::{did_you_mean, list};
use super::synonyms;

/// A strategy that can be named in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrategyWord {
    FailFast,
    Skip,
    Retry,
    RetryOrSkip,
    Wait,
    /// The strategy `shed_above(200)`, which is like `retry`, but fails at once if more requests per second than this
    /// number find the key held.
    ShedAbove(u32),
}

impl StrategyWord {
    /// The names of the strategies that take no number. The constructors in `lock_core::strategy` have the same names.
    pub(crate) const NAMES: [&'static str; 5] = ["fail_fast", "skip", "retry", "retry_or_skip", "wait"];

    /// An example of the strategy that takes a number, for error texts.
    const SHED_ABOVE: &'static str = "shed_above(200)";

    /// Returns the name, which is also the name of the constructor in `lock_core::strategy`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FailFast => "fail_fast",
            Self::Skip => "skip",
            Self::Retry => "retry",
            Self::RetryOrSkip => "retry_or_skip",
            Self::Wait => "wait",
            Self::ShedAbove(_) => "shed_above",
        }
    }

    /// Returns whether the strategy can skip a call. If so, the return type of the call must be able to represent a
    /// skipped call.
    pub(crate) fn skips(self) -> bool {
        matches!(self, Self::Skip | Self::RetryOrSkip)
    }

    /// Returns whether the strategy retries. Only a strategy that retries has waiters and pauses.
    pub(crate) fn tries_again(self) -> bool {
        self.waits_for_a_while() || self == Self::Wait
    }

    /// Returns whether the strategy waits for a limited time, so that a limit of the wait has an effect.
    pub(crate) fn waits_for_a_while(self) -> bool {
        matches!(self, Self::Retry | Self::RetryOrSkip | Self::ShedAbove(_))
    }

    /// Returns the list of words, for an error text.
    pub(crate) fn list() -> String {
        list(Self::NAMES.into_iter().chain([Self::SHED_ABOVE]))
    }

    /// Parses the value of the option.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::from_name(text).ok_or_else(|| {
            if text.starts_with("shed_above") {
                return format!(
                    "`{text}` lacks how many requests a second may find the key held: write a number from 1, such as \
                     `{}`",
                    Self::SHED_ABOVE
                );
            }
            let names = Self::NAMES.into_iter().chain(["shed_above"]);
            let near = synonyms::strategy(text).map_or_else(|| did_you_mean(text, names), str::to_owned);
            format!("unknown strategy `{text}`{near}\nstrategies: {}", Self::list())
        })
    }

    /// Returns the strategy with this name, if there is one.
    pub(crate) fn from_name(text: &str) -> Option<Self> {
        Some(match text {
            "fail_fast" => Self::FailFast,
            "skip" => Self::Skip,
            "retry" => Self::Retry,
            "retry_or_skip" => Self::RetryOrSkip,
            "wait" => Self::Wait,
            _ => {
                let rate = text.strip_prefix("shed_above(")?.strip_suffix(')')?.trim();
                return rate.parse().ok().filter(|rate| *rate > 0).map(Self::ShedAbove);
            }
        })
    }
}

impl fmt::Display for StrategyWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShedAbove(rate) => write!(f, "shed_above({rate})"),
            named => f.write_str(named.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_back() {
        for name in StrategyWord::NAMES.into_iter().chain([StrategyWord::SHED_ABOVE]) {
            assert_eq!(StrategyWord::parse(name).map(|word| word.to_string()), Ok(name.to_owned()));
        }
        assert_eq!(StrategyWord::from_name("shed_above( 7 )"), Some(StrategyWord::ShedAbove(7)));
    }

    #[test]
    fn what_is_no_strategy_says_what_to_write() {
        for (text, part) in [
            ("retyr", "did you mean `retry`?\nstrategies: `fail_fast`, `skip`"),
            ("shed_above", "such as `shed_above(200)`"),
            ("shed_above(0)", "a number from 1"),
            ("shed_above(fast)", "a number from 1"),
            ("shed", "did you mean `shed_above`?"),
            ("fair", "it is a kind"),
        ] {
            let error = StrategyWord::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
