//! Reads the value of an option as text, a duration or a number. Each error describes the expected form.

use std::time::Duration;

use syn::spanned::Spanned as _;
use syn::{Expr, Lit, LitStr, UnOp};

use crate::args::Arg;
use crate::words::duration;

/// Returns the error for a value in the wrong form.
pub(crate) fn expected(arg: &Arg, form: &str) -> syn::Error {
    syn::Error::new(arg.value.span(), format!("`{}` takes {form}", arg.name))
}

/// Returns the value, if it is a string literal.
pub(crate) fn string(value: &Expr) -> Option<LitStr> {
    match literal(value) {
        Some(Lit::Str(literal)) => Some(literal.clone()),
        _ => None,
    }
}

/// Returns the value, if it is a literal.
pub(crate) fn literal(value: &Expr) -> Option<&Lit> {
    match ungrouped(value) {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    }
}

/// Returns the value, if it is a whole number.
pub(crate) fn integer(value: &Expr) -> Option<u64> {
    match literal(value) {
        Some(Lit::Int(number)) => number.base10_parse().ok(),
        _ => None,
    }
}

/// Returns the value without the invisible group that `macro_rules!` adds around a fragment.
pub(crate) fn ungrouped(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => ungrouped(&group.expr),
        value => value,
    }
}

/// Reads a string literal that is not blank.
pub(crate) fn text(arg: &Arg, example: &str) -> syn::Result<LitStr> {
    let literal =
        string(&arg.value).ok_or_else(|| expected(arg, &format!("a string such as `{example}`")))?;
    if literal.value().trim().is_empty() {
        let message = format!("`{}` is empty: write one such as `{example}`, or remove it", arg.name);
        return Err(syn::Error::new(literal.span(), message));
    }
    Ok(literal)
}

/// Reads a duration with a unit.
pub(crate) fn duration_of(arg: &Arg) -> syn::Result<(LitStr, Duration)> {
    if let Some(Lit::Int(number)) = literal(&arg.value) {
        let digits = number.base10_digits();
        let message = format!("add a unit: `\"{digits}ms\"` or `\"{digits}s\"`?");
        return Err(syn::Error::new(number.span(), message));
    }
    let literal =
        string(&arg.value).ok_or_else(|| expected(arg, "a string with a unit such as `\"500ms\"`"))?;
    let duration = duration::parse_option(&arg.name.to_string(), &literal.value())
        .map_err(|message| syn::Error::new(literal.span(), message))?;
    Ok((literal, duration))
}

/// Reads a number or an expression. A literal must be from 1 to `most`. An expression must have the type `ty`, which
/// the compiler checks. `zero` is the error text for 0.
pub(crate) fn number(arg: &Arg, ty: &str, most: u64, zero: &str) -> syn::Result<Expr> {
    let form = || expected(arg, &format!("a number such as `3`, or an expression that is a `{ty}`"));
    match ungrouped(&arg.value) {
        Expr::Lit(literal) => {
            let Lit::Int(number) = &literal.lit else { return Err(form()) };
            match number.base10_parse::<u64>() {
                Ok(0) => Err(syn::Error::new(number.span(), zero)),
                Ok(read) if read <= most => Ok(arg.value.clone()),
                _ => {
                    let message = format!("`{}` is at most {most}", arg.name);
                    Err(syn::Error::new(number.span(), message))
                }
            }
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) && literal(&unary.expr).is_some() => {
            Err(form())
        }
        _ => Ok(arg.value.clone()),
    }
}
