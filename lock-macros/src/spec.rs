//! Validates options and signature into a [`LockSpec`].

use std::time::Duration;

use proc_macro2::Ident;
use syn::{Expr, ExprPath, Lit, LitStr, Path, Signature};

use crate::args::{Arg, Args};
use crate::backoff::{Backoff, backoff};
use crate::errors::Errors;
use crate::fallback::fallback;
use crate::keys::Keys;
use crate::kind::Kind;
use crate::params::Params;
use crate::rules::{self, Readings};
use crate::strategy::{Strategy, strategy};
use crate::template::Template;
use crate::value::{duration_of, expected, literal, number, string, text, ungrouped};
use crate::words::choice::{OnLostWord, ReleaseWord};

/// The shortest ttl. No store can keep a shorter lease: one round trip and the error of the clock take about as long.
const SHORTEST_TTL: Duration = Duration::from_millis(10);

/// The validated content of the attribute.
pub(crate) struct LockSpec {
    pub(crate) keys: Keys,
    /// The kind, or `None` if the attribute names none.
    pub(crate) kind: Option<Kind>,
    /// A literal above 0, or an expression that is evaluated once per call.
    pub(crate) take: Option<Expr>,
    pub(crate) ttl: Option<(LitStr, Duration)>,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) wait: Option<(LitStr, Duration)>,
    pub(crate) backoff: Option<Backoff>,
    /// A literal above 0, or an expression that is evaluated once per call.
    pub(crate) max_waiters: Option<Expr>,
    /// The function to call when the key is held.
    pub(crate) fallback: Option<ExprPath>,
    pub(crate) renew: Option<bool>,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) max_hold: Option<(LitStr, Duration)>,
    pub(crate) min_hold: Option<(LitStr, Duration)>,
    pub(crate) linger: Option<(LitStr, Duration)>,
    pub(crate) on_lost: Option<OnLostWord>,
    pub(crate) release: Option<ReleaseWord>,
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
        let take = check(args.take.as_ref(), errors, take);
        let ttl = check(args.ttl.as_ref(), errors, ttl);
        let strategy = check(args.strategy.as_ref(), errors, |arg| strategy(arg, &params));
        let wait = check(args.wait.as_ref(), errors, duration_or_profile);
        let backoff = check(args.backoff.as_ref(), errors, backoff);
        let max_waiters = check(args.max_waiters.as_ref(), errors, max_waiters);
        let fallback = check(args.fallback.as_ref(), errors, |arg| fallback(arg, signature));
        let renew = check(args.renew.as_ref(), errors, renew);
        let renew_every = check(args.renew_every.as_ref(), errors, |arg| Ok(duration_of(arg)?.1));
        let max_hold = check(args.max_hold.as_ref(), errors, duration_of);
        let min_hold = check(args.min_hold.as_ref(), errors, duration_of);
        let linger = check(args.linger.as_ref(), errors, duration_of);
        let on_lost = check(args.on_lost.as_ref(), errors, on_lost);
        let release = check(args.release.as_ref(), errors, release);
        let handle = check(args.handle.as_ref(), errors, |arg| handle(arg, &params));
        let label = check(args.label.as_ref(), errors, |arg| label(arg, &params));
        let profile = check(args.profile.as_ref(), errors, |arg| text(arg, "\"checkout\""));
        let readings = Readings {
            kind: given(&kind),
            take: given(&take),
            ttl: given(&ttl),
            strategy: given(&strategy),
            renew: given(&renew).copied(),
            max_hold: given(&max_hold),
            min_hold: given(&min_hold),
            linger: given(&linger),
        };
        rules::check(args, &readings, errors);
        let krate = errors.take(krate(args.krate.as_ref()));
        Some(Self {
            keys: keys?,
            kind: kind?,
            take: take?,
            ttl: ttl?,
            strategy: strategy?,
            wait: wait?,
            backoff: backoff?,
            max_waiters: max_waiters?,
            fallback: fallback?,
            renew: renew?,
            renew_every: renew_every?,
            max_hold: max_hold?,
            min_hold: min_hold?,
            linger: linger?,
            on_lost: on_lost?,
            release: release?,
            handle: handle?,
            label: label?,
            profile: profile?,
            manager: args.manager.as_ref().map(|arg| arg.value.clone()),
            krate: krate?,
        })
    }

    /// Returns every template of the attribute.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.keys.templates().iter().chain(&self.label)
    }

    /// Returns whether the strategy is known to skip calls. A strategy that is an expression skips only at run time,
    /// with an error whose `is_skipped()` is true.
    pub(crate) fn skips(&self) -> bool {
        matches!(&self.strategy, Some(Strategy::Named(named)) if named.skips())
    }
}

fn label(arg: &Arg, params: &Params) -> syn::Result<Template> {
    Template::parse(text(arg, "\"pay\"")?, "label", params)
}

/// Reads an option. Returns `Some(None)` if it is missing, and `None` if it is wrong.
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

/// Reads a duration that a profile can also set. A profile is the place for a duration that is known only at run time.
fn duration_or_profile(arg: &Arg) -> syn::Result<(LitStr, Duration)> {
    if literal(&arg.value).is_none() {
        let form = format!(
            "a string with a unit such as `\"500ms\"`\nhelp: for a value that is known only at run time, write `profile = \"..\"` \
             instead of `{0}`, and give the manager a profile of that name: `Profile::new().{0}(..)`",
            arg.name
        );
        return Err(expected(arg, &form));
    }
    duration_of(arg)
}

fn ttl(arg: &Arg) -> syn::Result<(LitStr, Duration)> {
    let (literal, duration) = duration_or_profile(arg)?;
    if duration < SHORTEST_TTL {
        let message =
            format!("a ttl of {duration:?} is shorter than any store can keep: write at least `10ms`");
        return Err(syn::Error::new(literal.span(), message));
    }
    Ok((literal, duration))
}

/// The largest number of permits that one call takes. `lock-core` has the same bound (`options/take.rs`).
const MOST_PERMITS: u64 = 100;

fn take(arg: &Arg) -> syn::Result<Expr> {
    let zero = "`take = 0` takes no permit, so nothing would be locked: write at least `take = 1`";
    number(arg, "u32", MOST_PERMITS, zero)
}

fn max_waiters(arg: &Arg) -> syn::Result<Expr> {
    let zero = "`max_waiters = 0` lets nobody wait: write `strategy = \"fail_fast\"` for that, or at least `max_waiters = 1`";
    number(arg, "usize", u64::from(u32::MAX), zero)
}

fn renew(arg: &Arg) -> syn::Result<bool> {
    match literal(&arg.value) {
        Some(Lit::Bool(flag)) => Ok(flag.value),
        _ => Err(expected(arg, "`true` or `false`")),
    }
}

fn on_lost(arg: &Arg) -> syn::Result<OnLostWord> {
    word(arg, &OnLostWord::forms(), OnLostWord::parse)
}

fn release(arg: &Arg) -> syn::Result<ReleaseWord> {
    word(arg, &ReleaseWord::forms(), ReleaseWord::parse)
}

/// Reads an option whose value is a word. `forms` lists the words for errors.
fn word<T>(arg: &Arg, forms: &str, parse: fn(&str) -> Result<T, String>) -> syn::Result<T> {
    let literal = string(&arg.value).ok_or_else(|| expected(arg, forms))?;
    parse(&literal.value()).map_err(|message| syn::Error::new(literal.span(), message))
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
