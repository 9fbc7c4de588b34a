//! The option `strategy`: what to do when the key is held.

use syn::{Expr, Lit};

use crate::args::Arg;
use crate::params::Params;
use crate::suggest::{did_you_mean, list};
use crate::synonyms;
use crate::value::{expected, literal, ungrouped};

/// What to do while another holds the key.
pub(crate) enum Strategy {
    Named(Named),
    /// An expression, evaluated once per call.
    Value(Box<Expr>),
}

/// A strategy with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    FailFast,
    Skip,
    Retry,
    RetryOrSkip,
    Wait,
}

impl Named {
    const ALL: [Self; 5] = [Self::FailFast, Self::Skip, Self::Retry, Self::RetryOrSkip, Self::Wait];

    /// Returns the word in the attribute, which is also the name of the constructor in `lock_core::strategy`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FailFast => "fail_fast",
            Self::Skip => "skip",
            Self::Retry => "retry",
            Self::RetryOrSkip => "retry_or_skip",
            Self::Wait => "wait",
        }
    }

    /// Returns whether a call can be skipped, which the return type must then be able to express.
    pub(crate) fn skips(self) -> bool {
        matches!(self, Self::Skip | Self::RetryOrSkip)
    }

    /// Returns whether it tries again: only then are there waiters to count, and pauses between tries.
    pub(crate) fn tries_again(self) -> bool {
        self.waits_for_a_while() || self == Self::Wait
    }

    /// Returns whether it waits, but not for ever: only then does a limit of the wait have an effect.
    pub(crate) fn waits_for_a_while(self) -> bool {
        matches!(self, Self::Retry | Self::RetryOrSkip)
    }
}

/// Reads the option `strategy`. Refuses the bare name of a strategy, which is not a value unless a parameter has that name.
pub(crate) fn strategy(arg: &Arg, params: &Params) -> syn::Result<Strategy> {
    if let Expr::Path(path) = ungrouped(&arg.value)
        && let Some(name) = path.path.get_ident()
        && params.bound(name).is_none()
        && Named::ALL.iter().any(|named| name == named.name())
    {
        let message = format!(
            "`{name}` is the name of a strategy: write it as a string, `strategy = \"{name}\"`, or as a value, \
             `strategy = lock_core::strategy::{name}()`"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    let names = || Named::ALL.map(Named::name);
    match literal(&arg.value) {
        None => Ok(Strategy::Value(Box::new(arg.value.clone()))),
        Some(Lit::Str(literal)) => {
            let word = literal.value();
            let named = Named::ALL.into_iter().find(|named| named.name() == word);
            named.map(Strategy::Named).ok_or_else(|| {
                let hint = synonyms::strategy(&word);
                let near = hint.map_or_else(|| did_you_mean(&word, names()), str::to_owned);
                let message = format!("unknown strategy `{word}`{near}\nstrategies: {}", list(names()));
                syn::Error::new(literal.span(), message)
            })
        }
        Some(_) => {
            Err(expected(arg, "the name of a strategy such as `\"retry\"`, or an expression that is one"))
        }
    }
}
