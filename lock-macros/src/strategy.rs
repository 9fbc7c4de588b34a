//! `strategy`: what to do when the key is held.

use syn::{Expr, Lit};

use crate::args::Arg;
use crate::params::Params;
use crate::suggest::{did_you_mean, list};
use crate::synonyms;
use crate::value::{expected, literal, ungrouped};

/// What to do while another holds the key.
pub(crate) enum Strategy {
    Named(Named),
    /// Evaluated once per call.
    Value(Box<Expr>),
}

/// A strategy that has a name.
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

    /// The word in the attribute, and the name of the constructor in `lock_core::strategy`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FailFast => "fail_fast",
            Self::Skip => "skip",
            Self::Retry => "retry",
            Self::RetryOrSkip => "retry_or_skip",
            Self::Wait => "wait",
        }
    }

    /// Whether "done without" is a success, so that the return type must be able to say it.
    pub(crate) fn skips(self) -> bool {
        matches!(self, Self::Skip | Self::RetryOrSkip)
    }

    /// Whether it tries again at all: only then are there waiters to count, and pauses between tries.
    pub(crate) fn tries_again(self) -> bool {
        self.waits_for_a_while() || self == Self::Wait
    }

    /// Whether it waits, and not for ever: only then does a length of the wait mean anything.
    pub(crate) fn waits_for_a_while(self) -> bool {
        matches!(self, Self::Retry | Self::RetryOrSkip)
    }
}

/// Reads the option `strategy`. The bare name of one is no value, unless a parameter is called so.
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
