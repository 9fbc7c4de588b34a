//! Generates the line that the attribute adds to the documentation of a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::keys::Keys;
use crate::spec::LockSpec;
use crate::strategy::Strategy;
use crate::words::kind::KindWord;

// Output:
//     #[doc = ""] #[doc = "Locked by `order:<id>`, kind `read`, ttl `500ms`, strategy `retry`."]
pub(crate) fn doc_line(spec: &LockSpec, has_docs: bool) -> TokenStream {
    let mut line = format!("Locked by {}", locked_by(&spec.keys));
    if let Some(kind) = spec.kind.as_ref().filter(|kind| kind.word != KindWord::Reentrant) {
        line += &format!(", kind `{}`", kind.word.name());
        if let Some(permits) = &kind.permits {
            line += &format!(", permits {}", code(&expression(permits)));
        }
    }
    if let Some(take) = spec.plain.number("take") {
        line += &format!(", take {}", code(&expression(take)));
    }
    if let Some(profile) = &spec.profile {
        line += &format!(", profile {}", code(&profile.value()));
    }
    if let Some((ttl, _)) = spec.plain.time("ttl") {
        line += &format!(", ttl `{}`", ttl.value().trim());
    }
    match &spec.strategy {
        Some(Strategy::Named(named)) => line += &format!(", strategy `{named}`"),
        Some(Strategy::Value(value)) => line += &format!(", strategy {}", code(&expression(value))),
        None => {}
    }
    if let Some((wait, _)) = spec.plain.time("wait") {
        line += &format!(", wait `{}`", wait.value().trim());
    }
    if let Some(fallback) = &spec.fallback {
        let name = expression(fallback);
        line += &format!("; when the key is held, {} is called instead", code(&name));
    }
    line.push('.');
    let paragraph = has_docs.then(|| quote!(#[doc = ""]));
    quote!(#paragraph #[doc = #line])
}

/// Lists the templates in the form "`a`, `b` and `c`".
fn locked_by(keys: &Keys) -> String {
    let words: Vec<_> = keys.templates().iter().map(|template| code(&template.literal.value())).collect();
    match words.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}, all or none", first.join(", ")),
        _ => words.concat(),
    }
}

/// Formats text as Markdown code. Text with a backtick needs a longer fence.
fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

fn expression(value: &impl ToTokens) -> String {
    value
        .to_token_stream()
        .to_string()
        .replace(" :: ", "::")
        .replace(" (", "(")
        .replace("( ", "(")
        .replace(" )", ")")
}

#[cfg(test)]
mod tests {
    use crate::expand::attribute;

    fn expand(args: &str, item: &str) -> String {
        attribute(args.parse().expect(args), &item.parse().expect(item)).to_string()
    }

    const SHIP: &str = "async fn ship(id: u64) -> Result<u64, LockError> { Ok(id) }";

    #[test]
    fn the_docs_say_what_locks_the_function() {
        for (options, line) in [
            (r#"key = "order:<id>""#, "Locked by `order:<id>`."),
            (
                r#"key = "order:<id>", ttl = "500ms", strategy = "retry""#,
                "Locked by `order:<id>`, ttl `500ms`, strategy `retry`.",
            ),
            (r#"key = "a`b", strategy = my::own(3)"#, "Locked by `` a`b ``, strategy `my::own(3)`."),
            (r#"key = "order:<id>", kind = "reentrant""#, "Locked by `order:<id>`."),
            (r#"key = "a", kind = "fair", ttl = "5s""#, "Locked by `a`, kind `fair`, ttl `5s`."),
            (r#"key = "a", kind = "read""#, "Locked by `a`, kind `read`."),
            (r#"key = "a", kind = "write""#, "Locked by `a`, kind `write`."),
            (
                r#"key = "a", kind = "semaphore", permits = 3"#,
                "Locked by `a`, kind `semaphore`, permits `3`.",
            ),
            (
                r#"key = "a", kind = "semaphore", permits = pool::SIZE"#,
                "Locked by `a`, kind `semaphore`, permits `pool::SIZE`.",
            ),
            (
                r#"key = "a", kind = "semaphore", permits = 3, take = pool::UNITS"#,
                "Locked by `a`, kind `semaphore`, permits `3`, take `pool::UNITS`.",
            ),
            (r#"key = "a", profile = "checkout""#, "Locked by `a`, profile `checkout`."),
            (r#"keys = ["a:<id>"]"#, "Locked by `a:<id>`."),
            (r#"keys = ["a:<id>", "b"]"#, "Locked by `a:<id>` and `b`, all or none."),
            (
                r#"keys = ["c", "b", "a"], strategy = "wait""#,
                "Locked by `c`, `b` and `a`, all or none, strategy `wait`.",
            ),
        ] {
            let expanded = expand(options, SHIP);
            assert!(expanded.contains(line), "{options}: {expanded}");
        }
    }
}
