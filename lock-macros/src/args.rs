//! Tokens to options. No meaning here: a value is any expression, kept with its span and its keyword.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, LitStr, Token};

use crate::errors::Errors;
use crate::suggest::{did_you_mean, list};

/// The options, each with the form that an error shows.
const OPTIONS: [(&str, &str); 17] = [
    ("key", "key = \"order:<id>\""),
    ("keys", "keys = [\"a:<x>\", \"b:<y>\"]"),
    ("kind", "kind = \"fair\""),
    ("permits", "permits = 3"),
    ("ttl", "ttl = \"500ms\""),
    ("strategy", "strategy = \"retry\""),
    ("wait", "wait = \"2s\""),
    ("max_waiters", "max_waiters = 64"),
    ("renew", "renew = false"),
    ("max_hold", "max_hold = \"10m\""),
    ("min_hold", "min_hold = \"1s\""),
    ("on_lost", "on_lost = \"finish\""),
    ("handle", "handle = lock"),
    ("label", "label = \"pay\""),
    ("profile", "profile = \"checkout\""),
    ("manager", "manager = self.locks"),
    ("crate", "crate = ::lock_core"),
];

/// Names that are reserved for what a later version brings, and what to write until then. Ignoring one would change
/// what is locked.
const NOT_YET: [(&str, &str); 2] = [
    (
        "backoff",
        "write `strategy = retry().backoff(Backoff::exponential(..))`, with both from `lock_core::strategy`",
    ),
    ("fallback", "let the caller look at the error, `Err(error) if error.is_contended()`"),
];

/// One option as it was written.
pub(crate) struct Arg {
    /// The keyword; errors about two options that do not go together point at it.
    pub(crate) name: Ident,
    /// What stands behind the `=`.
    pub(crate) value: Expr,
    /// The position among the options: of two that contradict each other the later one is reported.
    pub(crate) position: usize,
}

impl Arg {
    /// The one that was written later.
    pub(crate) fn later_of<'a>(&'a self, other: &'a Self) -> &'a Self {
        if self.position > other.position { self } else { other }
    }
}

/// The options of one attribute.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<Arg>,
    pub(crate) keys: Option<Arg>,
    pub(crate) kind: Option<Arg>,
    pub(crate) permits: Option<Arg>,
    pub(crate) ttl: Option<Arg>,
    pub(crate) strategy: Option<Arg>,
    pub(crate) wait: Option<Arg>,
    pub(crate) max_waiters: Option<Arg>,
    pub(crate) renew: Option<Arg>,
    pub(crate) max_hold: Option<Arg>,
    pub(crate) min_hold: Option<Arg>,
    pub(crate) on_lost: Option<Arg>,
    pub(crate) handle: Option<Arg>,
    pub(crate) label: Option<Arg>,
    pub(crate) profile: Option<Arg>,
    pub(crate) manager: Option<Arg>,
    pub(crate) krate: Option<Arg>,
}

impl Args {
    /// Reads all options; what cannot be read becomes an error and the next option is tried.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let read = |input: ParseStream<'_>| {
            for position in 0.. {
                if input.is_empty() {
                    break;
                }
                match parse_one(input, position) {
                    Ok(arg) => args.set(arg, input, errors),
                    Err(error) => errors.push(error),
                }
                skip_to_next(input);
            }
            Ok(())
        };
        let read = read.parse2(tokens);
        errors.take(read);
        args
    }

    fn set(&mut self, arg: Arg, rest: ParseStream<'_>, errors: &mut Errors) {
        if !rest.is_empty() && !rest.peek(Token![,]) {
            errors.at(rest.span(), "expected `,`");
        }
        let slot = self.slot(&arg.name).expect("BUG: `form_of` knows a name that has no place");
        if slot.is_some() {
            errors.at(arg.name.span(), format_args!("`{}` is given twice", arg.name));
        } else {
            *slot = Some(arg);
        }
    }

    fn slot(&mut self, name: &Ident) -> Option<&mut Option<Arg>> {
        Some(match name.to_string().as_str() {
            "key" => &mut self.key,
            "keys" => &mut self.keys,
            "kind" => &mut self.kind,
            "permits" => &mut self.permits,
            "ttl" => &mut self.ttl,
            "strategy" => &mut self.strategy,
            "wait" => &mut self.wait,
            "max_waiters" => &mut self.max_waiters,
            "renew" => &mut self.renew,
            "max_hold" => &mut self.max_hold,
            "min_hold" => &mut self.min_hold,
            "on_lost" => &mut self.on_lost,
            "handle" => &mut self.handle,
            "label" => &mut self.label,
            "profile" => &mut self.profile,
            "manager" => &mut self.manager,
            "crate" => &mut self.krate,
            _ => return None,
        })
    }
}

/// Reads `name = expression`.
fn parse_one(input: ParseStream<'_>, position: usize) -> syn::Result<Arg> {
    if let Ok(text) = input.fork().parse::<LitStr>() {
        return Err(syn::Error::new(
            text.span(),
            format_args!("name the option: `key = {:?}`", text.value()),
        ));
    }
    // `parse_any` because `crate` is a keyword.
    let name = input
        .call(Ident::parse_any)
        .map_err(|error| syn::Error::new(error.span(), format_args!("expected an option: {}", known())))?;
    let form = form_of(&name)?;
    let expected = |span: Span| syn::Error::new(span, format_args!("expected a value: `{form}`"));
    if !input.peek(Token![=]) {
        return Err(expected(name.span()));
    }
    let equals: Token![=] = input.parse()?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(expected(equals.span));
    }
    Ok(Arg { name, value: input.parse()?, position })
}

/// The form in which the option is written.
fn form_of(name: &Ident) -> syn::Result<&'static str> {
    let word = name.to_string();
    if let Some((_, form)) = OPTIONS.iter().find(|(option, _)| *option == word) {
        return Ok(form);
    }
    let message = if let Some((_, instead)) = NOT_YET.iter().find(|(option, _)| *option == word) {
        format!("`{word}` is not available in the attribute in this version: {instead}")
    } else {
        let near = did_you_mean(&word, OPTIONS.map(|(option, _)| option));
        format!("unknown option `{word}`{near}\noptions: {}", known())
    };
    Err(syn::Error::new(name.span(), message))
}

fn known() -> String {
    list(OPTIONS.map(|(option, _)| option))
}

/// Moves behind the next comma, so that one broken option does not hide the errors of the others.
fn skip_to_next(input: ParseStream<'_>) {
    while !input.is_empty() {
        if input.parse::<Option<Token![,]>>().is_ok_and(|comma| comma.is_some()) {
            return;
        }
        let _: syn::Result<TokenTree> = input.parse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_of_the_table_has_a_place() {
        let mut args = Args::default();
        for (option, _) in OPTIONS {
            let name = if option == "crate" {
                Ident::parse_any.parse_str("crate").unwrap()
            } else {
                Ident::new(option, Span::call_site())
            };
            assert!(args.slot(&name).is_some(), "{option}");
        }
    }

    #[test]
    fn the_forms_of_the_table_are_read_without_error() {
        for (option, form) in OPTIONS {
            let mut errors = Errors::default();
            let mut args = Args::parse(form.parse().unwrap(), &mut errors);
            assert!(errors.into_tokens().is_none(), "{form}");
            let name: Ident = Ident::parse_any.parse_str(option).unwrap();
            assert!(args.slot(&name).unwrap().is_some(), "{form}");
        }
    }
}
