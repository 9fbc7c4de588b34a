//! Reads the options `kind` and `permits`, which define the type of the lock.

use proc_macro2::Span;
use syn::Expr;

use crate::args::{Arg, Args};
use crate::errors::Errors;
use crate::value::{expected, number, string};
use crate::words::kind::KindWord;

/// The kind of the lock, after validation.
pub(crate) struct Kind {
    pub(crate) word: KindWord,
    /// The `permits` of a semaphore: a literal above 0, or an expression that is evaluated once per call. No other kind
    /// has permits.
    pub(crate) permits: Option<Expr>,
}

impl Kind {
    /// Reads `kind` and `permits`. Returns `None` if there are errors. If both options are missing, returns
    /// `Some(None)`: the kind then comes from the profile. If no profile sets it, the kind is `reentrant`.
    pub(crate) fn parse(args: &Args, errors: &mut Errors) -> Option<Option<Self>> {
        let word = match args.get("kind") {
            None => None,
            Some(arg) => Some(errors.take(word(arg))?),
        };
        if word == Some(KindWord::Semaphore) {
            return semaphore(args, errors).map(Some);
        }
        let Some(permits) = args.get("permits") else {
            return Some(word.map(|word| Self { word, permits: None }));
        };
        refuse_permits(permits, args.get("kind"), word, errors);
        None
    }
}

fn semaphore(args: &Args, errors: &mut Errors) -> Option<Kind> {
    let Some(arg) = args.get("permits") else {
        let at = args.get("kind").map_or_else(Span::call_site, |kind| kind.name.span());
        errors.add(at, "`kind = \"semaphore\"` needs `permits`: add one such as `permits = 3`");
        return None;
    };
    let permits = Some(errors.take(permits(arg))?);
    Some(Kind { word: KindWord::Semaphore, permits })
}

fn word(arg: &Arg) -> syn::Result<KindWord> {
    let literal = string(&arg.value)
        .ok_or_else(|| expected(arg, &format!("the name of a kind as a string: {}", KindWord::list())))?;
    KindWord::parse(&literal.value()).map_err(|message| syn::Error::new(literal.span(), message))
}

fn permits(arg: &Arg) -> syn::Result<Expr> {
    let zero = "a semaphore with 0 permits admits no call: write at least `permits = 1`";
    number(arg, "u32", u64::from(u32::MAX), zero)
}

/// Refuses `permits` for a kind without permits.
fn refuse_permits(permits: &Arg, kind: Option<&Arg>, word: Option<KindWord>, errors: &mut Errors) {
    let (Some(kind), Some(word)) = (kind, word) else {
        errors.add(
            permits.name.span(),
            "`permits` goes with `kind = \"semaphore\"` only: add that, or remove `permits`",
        );
        return;
    };
    let message = format!(
        "`permits` cannot be combined with `kind = \"{}\"`: remove `permits`, or write `kind = \"semaphore\"`",
        word.name()
    );
    errors.add(permits.later_of(kind).name.span(), message);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &str) -> Result<&'static str, String> {
        let mut errors = Errors::default();
        let args = Args::parse(options.parse().expect(options), &mut errors);
        let kind = Kind::parse(&args, &mut errors);
        match (kind, errors.into_tokens()) {
            (Some(kind), None) => Ok(kind.map_or("", |kind| kind.word.name())),
            (None, Some(errors)) => Err(errors.to_string()),
            (kind, errors) => panic!("{options}: kind {}, errors {errors:?}", kind.is_some()),
        }
    }

    #[test]
    fn each_kind_is_read() {
        for (options, kind) in [
            ("", ""),
            (r#"kind = "reentrant""#, "reentrant"),
            (r#"kind = "fair""#, "fair"),
            (r#"kind = "read""#, "read"),
            (r#"kind = "write""#, "write"),
            (r#"kind = "semaphore", permits = 1"#, "semaphore"),
            (r#"permits = 4294967295, kind = "semaphore""#, "semaphore"),
            (r#"kind = "semaphore", permits = shop.desks()"#, "semaphore"),
        ] {
            assert_eq!(read(options), Ok(kind), "{options}");
        }
    }

    #[test]
    fn what_makes_no_kind_says_what_to_write() {
        for (options, part) in [
            (r#"kind = "raed""#, "did you mean `read`?"),
            (r#"kind = "semaphore(3)""#, "did you mean `semaphore`?"),
            (r#"kind = "shared""#, "did you mean `read`?"),
            (r#"kind = "mutex""#, "did you mean `reentrant`?"),
            (r#"kind = "banana""#, "unknown kind `banana`\\nkinds: `reentrant`, `fair`"),
            ("kind = fair", "the name of a kind as a string"),
            (r#"kind = "semaphore""#, "needs `permits`"),
            ("permits = 3", r#"goes with `kind = \"semaphore\"` only"#),
            (r#"kind = "fair", permits = 3"#, r#"`permits` cannot be combined with `kind = \"fair\"`"#),
            (r#"kind = "semaphore", permits = 0"#, "admits no call"),
            (r#"kind = "semaphore", permits = 4294967296"#, "at most 4294967295"),
            (r#"kind = "semaphore", permits = "3""#, "takes a number"),
            (r#"kind = "semaphore", permits = -3"#, "takes a number"),
            (r#"kind = "semaphore", permits = 1.5"#, "takes a number"),
        ] {
            let errors = read(options).expect_err(options);
            assert!(errors.contains(part), "{options}: {errors}");
            assert_eq!(errors.matches("compile_error").count(), 1, "{options}: {errors}");
        }
    }
}
