//! Reads the plain options, whose value is a duration, a number, a flag or a word.
//!
//! A new plain option needs one line in [`PLAIN`], and a setter of the same name in lock-core.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Expr, Lit, LitStr};

use crate::args::{Arg, Args};
use crate::errors::Errors;
use crate::tokens::private;
use crate::value::{duration_of, expected, literal, number, string};
use crate::words::choice::{OnLostWord, ReleaseWord};

/// The type of an option, which decides how its value is read.
enum Type {
    Ttl,
    Time,
    /// A literal from 1 to `most`, or an expression of the type `name`. `zero` is the error text for 0.
    Number {
        name: &'static str,
        most: u64,
        zero: &'static str,
    },
    Flag,
    OnLost,
    Release,
}

/// The plain options, in the order in which a request sets them.
const PLAIN: &[(&str, Type)] = &[
    (
        "take",
        Type::Number {
            name: "u32",
            // `lock-core` has the same limit (`options/take.rs`).
            most: 100,
            zero: "`take = 0` takes no permit, so nothing would be locked: write at least `take = 1`",
        },
    ),
    ("ttl", Type::Ttl),
    ("wait", Type::Time),
    (
        "max_waiters",
        Type::Number {
            name: "usize",
            most: u32::MAX as u64,
            zero: "`max_waiters = 0` lets nobody wait: write `strategy = \"fail_fast\"` for that, or at least `max_waiters = 1`",
        },
    ),
    ("renew", Type::Flag),
    ("renew_every", Type::Time),
    ("max_hold", Type::Time),
    ("min_hold", Type::Time),
    ("linger", Type::Time),
    ("on_lost", Type::OnLost),
    ("release", Type::Release),
];

/// The value of an option, after it was read.
enum Value {
    Time(LitStr, Duration),
    /// A literal, or an expression that is evaluated once per call.
    Number(Expr),
    Flag(bool),
    OnLost(OnLostWord),
    Release(ReleaseWord),
}

/// The plain options of an attribute, without options that are missing or wrong.
pub(crate) struct Plain(Vec<(&'static str, Value)>);

impl Plain {
    /// Reads all plain options. A value that cannot be read is reported as an error.
    pub(crate) fn read(args: &Args, errors: &mut Errors) -> Self {
        let read = |(name, of): &(&'static str, Type)| {
            let value = errors.take(value(args.get(name)?, of))?;
            Some((*name, value))
        };
        Self(PLAIN.iter().filter_map(read).collect())
    }

    fn get(&self, name: &str) -> Option<&Value> {
        debug_assert!(PLAIN.iter().any(|(option, _)| *option == name), "BUG: `{name}` is not in the table");
        self.0.iter().find(|(option, _)| *option == name).map(|(_, value)| value)
    }

    /// Returns the duration option `name`, as the literal and as its value.
    pub(crate) fn time(&self, name: &str) -> Option<(&LitStr, Duration)> {
        match self.get(name)? {
            Value::Time(text, time) => Some((text, *time)),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<&Expr> {
        match self.get(name)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the expressions that are evaluated once per call.
    pub(crate) fn evaluated(&self) -> impl Iterator<Item = &Expr> {
        self.0
            .iter()
            .filter_map(|(_, value)| if let Value::Number(number) = value { Some(number) } else { None })
    }
}

// Output:
//     .ttl(..).max_waiters(..).renew(..)
impl ToTokens for Plain {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.iter().map(|(name, value)| setter(name, value)));
    }
}

fn setter(name: &str, value: &Value) -> TokenStream {
    let private = private();
    // An error about the type of an expression must point at the expression.
    let at = match value {
        Value::Number(number) => Span::call_site().located_at(number.span()),
        _ => Span::call_site(),
    };
    let value = match value {
        Value::Number(number) => quote!(#number),
        Value::Time(_, time) => duration(*time),
        Value::Flag(flag) => quote!(#flag),
        Value::OnLost(OnLostWord::Cancel) => quote!(#private::OnLost::Cancel),
        Value::OnLost(OnLostWord::Finish) => quote!(#private::OnLost::Finish),
        Value::Release(ReleaseWord::Await) => quote!(#private::Release::Await),
        Value::Release(ReleaseWord::Background) => quote!(#private::Release::Background),
    };
    let name = Ident::new(name, at);
    quote_spanned!(at=> .#name(#value))
}

// Output:
//     Duration::new(0, 500000000)
pub(crate) fn duration(duration: Duration) -> TokenStream {
    let private = private();
    let seconds = Literal::u64_unsuffixed(duration.as_secs());
    let nanos = Literal::u32_unsuffixed(duration.subsec_nanos());
    quote!(#private::Duration::new(#seconds, #nanos))
}

fn value(arg: &Arg, of: &Type) -> syn::Result<Value> {
    Ok(match of {
        Type::Ttl => ttl(arg)?,
        Type::Time => time(arg)?,
        Type::Number { name, most, zero } => Value::Number(number(arg, name, *most, zero)?),
        Type::Flag => Value::Flag(flag(arg)?),
        Type::OnLost => Value::OnLost(word(arg, &OnLostWord::forms(), OnLostWord::parse)?),
        Type::Release => Value::Release(word(arg, &ReleaseWord::forms(), ReleaseWord::parse)?),
    })
}

/// Reads a duration, which must be a literal. A duration that is known only at run time belongs in a profile.
fn time(arg: &Arg) -> syn::Result<Value> {
    if literal(&arg.value).is_none() {
        let form = format!(
            "a string with a unit such as `\"500ms\"`\nhelp: for a value that is known only at run time, write `profile = \"..\"` \
             instead of `{0}`, and give the manager a profile of that name: `Profile::new().{0}(..)`",
            arg.name
        );
        return Err(expected(arg, &form));
    }
    duration_of(arg).map(|(text, time)| Value::Time(text, time))
}

/// The shortest ttl. No store can keep a shorter lease, because a round trip and the error of the clock are together
/// about as long.
const SHORTEST_TTL: Duration = Duration::from_millis(10);

fn ttl(arg: &Arg) -> syn::Result<Value> {
    let value = time(arg)?;
    if let Value::Time(text, ttl) = &value
        && *ttl < SHORTEST_TTL
    {
        let message = format!("a ttl of {ttl:?} is shorter than any store can keep: write at least `10ms`");
        return Err(syn::Error::new(text.span(), message));
    }
    Ok(value)
}

fn flag(arg: &Arg) -> syn::Result<bool> {
    match literal(&arg.value) {
        Some(Lit::Bool(flag)) => Ok(flag.value),
        _ => Err(expected(arg, "`true` or `false`")),
    }
}

/// Reads an option whose value is a word. `forms` lists the allowed words for error texts.
fn word<T>(arg: &Arg, forms: &str, parse: fn(&str) -> Result<T, String>) -> syn::Result<T> {
    let literal = string(&arg.value).ok_or_else(|| expected(arg, forms))?;
    parse(&literal.value()).map_err(|message| syn::Error::new(literal.span(), message))
}
