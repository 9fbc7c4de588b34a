//! Validates options and signature into a [`LockSpec`].

use proc_macro2::Ident;
use syn::{Expr, ExprPath, Lit, LitStr, Path, Signature};

use crate::args::{Arg, Args};
use crate::backoff::{Backoff, backoff};
use crate::errors::Errors;
use crate::fallback::fallback;
use crate::keys::Keys;
use crate::kind::Kind;
use crate::params::Params;
use crate::plain::Plain;
use crate::rules::{self, Readings};
use crate::strategy::{Strategy, strategy};
use crate::template::Template;
use crate::value::{expected, string, text, ungrouped};

/// The validated content of the attribute.
pub(crate) struct LockSpec {
    pub(crate) keys: Keys,
    /// The kind, or `None` if the attribute does not set a kind.
    pub(crate) kind: Option<Kind>,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) backoff: Option<Backoff>,
    /// The options whose value is a duration, a number, a flag or a word.
    pub(crate) plain: Plain,
    /// The function to call when the key is held.
    pub(crate) fallback: Option<ExprPath>,
    pub(crate) handle: Option<Ident>,
    pub(crate) label: Option<Template>,
    pub(crate) profile: Option<LitStr>,
    pub(crate) manager: Option<Expr>,
    pub(crate) krate: Path,
}

impl LockSpec {
    /// Checks the options against each other and against the signature. Returns `None` if there are errors.
    pub(crate) fn validate(args: &Args, signature: &Signature, errors: &mut Errors) -> Option<Self> {
        let params = Params::new(signature);
        let keys = Keys::parse(args, &params, errors);
        let kind = Kind::parse(args, errors);
        let plain = Plain::read(args, errors);
        let strategy = check(args.get("strategy"), errors, |arg| strategy(arg, &params));
        let backoff = check(args.get("backoff"), errors, backoff);
        let fallback = check(args.get("fallback"), errors, |arg| fallback(arg, signature));
        let handle = check(args.get("handle"), errors, |arg| handle(arg, &params));
        let label = check(args.get("label"), errors, |arg| label(arg, &params));
        let profile = check(args.get("profile"), errors, |arg| text(arg, "\"checkout\""));
        let readings = Readings { kind: given(&kind), strategy: given(&strategy), plain: &plain };
        rules::check(args, &readings, errors);
        let krate = errors.take(krate(args.get("crate")));
        Some(Self {
            keys: keys?,
            kind: kind?,
            strategy: strategy?,
            backoff: backoff?,
            plain,
            fallback: fallback?,
            handle: handle?,
            label: label?,
            profile: profile?,
            manager: args.get("manager").map(|arg| arg.value.clone()),
            krate: krate?,
        })
    }

    /// Returns every template of the attribute.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.keys.templates().iter().chain(&self.label)
    }

    /// Returns whether the strategy is known to skip calls. If the strategy is an expression, this is known only at run
    /// time, and a skipped call returns an error whose `is_skipped()` is true.
    pub(crate) fn skips(&self) -> bool {
        matches!(&self.strategy, Some(Strategy::Named(named)) if named.skips())
    }
}

fn label(arg: &Arg, params: &Params) -> syn::Result<Template> {
    Template::parse(text(arg, "\"pay\"")?, "label", params)
}

/// Reads an option. Returns `Some(None)` if the option is missing, and `None` if its value is wrong.
fn check<T>(
    arg: Option<&Arg>,
    errors: &mut Errors,
    read: impl FnOnce(&Arg) -> syn::Result<T>,
) -> Option<Option<T>> {
    match arg {
        None => Some(None),
        Some(arg) => errors.take(read(arg)).map(Some),
    }
}

/// Returns the value of an option that is present and correct.
fn given<T>(option: &Option<Option<T>>) -> Option<&T> {
    option.as_ref().and_then(Option::as_ref)
}

fn handle(arg: &Arg, params: &Params) -> syn::Result<Ident> {
    if string(&arg.value).is_some() {
        return Err(expected(arg, "a name without quotes, such as `lock`"));
    }
    let name = match ungrouped(&arg.value) {
        Expr::Path(path) if path.attrs.is_empty() && path.qself.is_none() => path.path.get_ident(),
        _ => None,
    };
    let name = name
        .filter(|name| !["self", "Self", "super", "crate"].iter().any(|keyword| *name == keyword))
        .ok_or_else(|| expected(arg, "a name for the handle in the body, such as `lock`"))?;
    if params.binds_anywhere(name) {
        let message = format!("`{name}` is a parameter already: choose another name for the handle");
        return Err(syn::Error::new(name.span(), message));
    }
    Ok(name.clone())
}

fn krate(arg: Option<&Arg>) -> syn::Result<Path> {
    let Some(arg) = arg else { return syn::parse_str("::lock_core") };
    let path = match ungrouped(&arg.value) {
        Expr::Path(path) if path.qself.is_none() => Some(path.path.clone()),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => text.parse_with(Path::parse_mod_style).ok(),
            _ => None,
        },
        _ => None,
    };
    path.ok_or_else(|| expected(arg, "a path such as `::lock_core`"))
}
