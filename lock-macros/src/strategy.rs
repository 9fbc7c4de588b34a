//! Reads the option `strategy`, which decides what to do when the key is held.

use syn::{Expr, Lit};

use crate::args::Arg;
use crate::params::Params;
use crate::value::{expected, literal, ungrouped};
use crate::words::strategy::StrategyWord;

pub(crate) enum Strategy {
    Named(StrategyWord),
    /// An expression, which is evaluated once per call.
    Value(Box<Expr>),
}

/// Reads the option `strategy`. Refuses the name of a strategy without quotes, except if a parameter has that name.
pub(crate) fn strategy(arg: &Arg, params: &Params) -> syn::Result<Strategy> {
    if let Expr::Path(path) = ungrouped(&arg.value)
        && let Some(name) = path.path.get_ident()
        && params.bound(name).is_none()
        && StrategyWord::NAMES.iter().any(|named| name == named)
    {
        let message = format!(
            "`{name}` is the name of a strategy: write it as a string, `strategy = \"{name}\"`, or as a value, \
             `strategy = lock_core::strategy::{name}()`"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    match literal(&arg.value) {
        None => Ok(Strategy::Value(Box::new(arg.value.clone()))),
        Some(Lit::Str(literal)) => StrategyWord::parse(&literal.value())
            .map(Strategy::Named)
            .map_err(|message| syn::Error::new(literal.span(), message)),
        Some(_) => {
            Err(expected(arg, "the name of a strategy such as `\"retry\"`, or an expression that is one"))
        }
    }
}
