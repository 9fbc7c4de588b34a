//! Parses a template such as `"order:<id>:<item.sku>"` into segments.
//!
//! lock-core has its own parser, because a proc-macro crate cannot export functions. Also, placeholders in lock-core
//! are names, while placeholders here are Rust expressions with spans. A test checks that both parsers split every
//! template in the same way.

use quote::ToTokens as _;
use syn::{Expr, LitStr};

use crate::params::Params;
use crate::placeholder::placeholder;
use crate::words::clash::{self, Values};

/// A text of the attribute whose placeholders name parameters.
pub(crate) struct Template {
    pub(crate) literal: LitStr,
    pub(crate) segments: Vec<Segment>,
}

/// A part of a template.
pub(crate) enum Segment {
    /// Text that is part of every key or label that is rendered from this template.
    Literal(String),
    /// A value of the call, read by reference.
    Value(Box<Expr>),
}

impl Segment {
    /// Returns the segment in the form that the check for clashes needs.
    fn part(&self, params: &Params) -> clash::Part<'_> {
        match self {
            Self::Literal(text) => clash::Part::Text(text),
            Self::Value(value) => clash::Part::Value(match &**value {
                Expr::Path(path) => path.path.get_ident().map_or(Values::Text, |name| params.values(name)),
                _ => Values::Text,
            }),
        }
    }

    /// Returns whether this is the value of a parameter such as `_id`.
    pub(crate) fn begins_with_underscore(&self) -> bool {
        matches!(self, Self::Value(value) if value.to_token_stream().to_string().starts_with('_'))
    }
}

impl Template {
    /// Parses the template of the option `option`: `key` or `label`.
    pub(crate) fn parse(literal: LitStr, option: &str, params: &Params) -> syn::Result<Self> {
        let segments = parse(&literal, option, params)?;
        Ok(Self { literal, segments })
    }
}

/// Splits the literal and checks each placeholder against the parameters.
fn parse(literal: &LitStr, option: &str, params: &Params) -> syn::Result<Vec<Segment>> {
    let error = |message: String| syn::Error::new(literal.span(), message);
    let mut segments = Vec::new();
    for piece in split(&literal.value()).map_err(error)? {
        segments.push(match piece {
            Piece::Literal(text) => {
                if let Some((found, name)) = foreign(&text, segments.is_empty(), params) {
                    return Err(error(format!(
                        "`{found}` is plain text here, the same for every call: write the placeholder as `<{name}>`"
                    )));
                }
                Segment::Literal(text)
            }
            Piece::Placeholder(text) => Segment::Value(Box::new(placeholder(&text, literal, option, params)?)),
        });
    }
    Ok(segments)
}

/// Returns a key that both templates can give, although their fixed texts differ.
pub(crate) fn clash(one: &[Segment], other: &[Segment], params: &Params) -> Option<String> {
    let [one, other] =
        [one, other].map(|segments| segments.iter().map(|segment| segment.part(params)).collect::<Vec<_>>());
    clash::clash(&one, &other)
}

/// A piece of the template, before placeholders are parsed.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Placeholder(String),
}

/// Splits `"a:<b>"` into `[Literal("a:"), Placeholder("b")]`. `<<` is a plain `<`.
fn split(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut literal = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('<') {
        literal.push_str(&rest[..open]);
        rest = &rest[open + 1..];
        if let Some(after) = rest.strip_prefix('<') {
            literal.push('<');
            rest = after;
            continue;
        }
        let Some(close) = rest.find(['<', '>']).filter(|close| rest[*close..].starts_with('>')) else {
            return Err(
                "`<` opens a placeholder, but no `>` closes it; write `<<` for a plain `<`".to_owned()
            );
        };
        if close == 0 {
            return Err("`<>` is an empty placeholder: name an argument, such as `<id>`".to_owned());
        }
        if !pieces.is_empty() && !separates(&literal) {
            let second = &rest[..close];
            return Err(format!(
                "nothing separates the value of `<{second}>` from the value before it: put a `:` between them"
            ));
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Placeholder(rest[..close].to_owned()));
        rest = &rest[close + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    if pieces.is_empty() {
        return Err("the key is empty: write one such as `order:<id>`".to_owned());
    }
    Ok(pieces)
}

/// Finds a parameter in the placeholder syntax of format strings, routes, shells or other libraries. Returns the
/// placeholder, and the name in it. `first` is true if `text` is the start of the template.
fn foreign<'a>(text: &'a str, first: bool, params: &Params) -> Option<(String, &'a str)> {
    let is_parameter = |name: &str| params.names().any(|known| known == name);
    let in_braces = text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    for name in in_braces {
        if name.is_empty() {
            return Some(("{}".to_owned(), "id"));
        }
        let (plain, _) = name.split_once(':').unwrap_or((name, ""));
        if is_parameter(plain) {
            return Some((format!("{{{name}}}"), plain));
        }
    }
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    let after_dollar =
        text.split('$').skip(1).map(|rest| rest.split(|char| !is_part(char)).next().unwrap_or(rest));
    if let Some(name) = after_dollar.into_iter().find(|name| is_parameter(name)) {
        return Some((format!("${name}"), name));
    }
    // Finds `:id` at the start of a part, as in `order::id`. In `order:id` the colon ends the part before it.
    let begins = |at: usize| match text[..at].chars().next_back() {
        Some(before) => matches!(before, ':' | '/'),
        None => first,
    };
    let after_colon = text
        .match_indices(':')
        .filter(|(at, _)| begins(*at))
        .map(|(at, _)| text[at + 1..].split(|char| !is_part(char)).next().unwrap_or_default());
    after_colon.into_iter().find(|name| is_parameter(name)).map(|name| (format!(":{name}"), name))
}

/// Returns whether this text separates two values unambiguously. Without such a text, `<a><b>` gives the same key for
/// "ab", "c" and for "a", "bc". Letters, digits and `%` occur in encoded values. The key builder of lock-core has the
/// same rule.
fn separates(literal: &str) -> bool {
    literal.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Piece {
        Piece::Literal(text.to_owned())
    }

    fn placeholder(text: &str) -> Piece {
        Piece::Placeholder(text.to_owned())
    }

    #[test]
    fn a_template_is_split_into_text_and_placeholders() {
        for (template, pieces) in [
            ("order", vec![literal("order")]),
            ("order:<id>", vec![literal("order:"), placeholder("id")]),
            ("<a>-<b.c>", vec![placeholder("a"), literal("-"), placeholder("b.c")]),
            ("a<<b>c", vec![literal("a<b>c")]),
            ("<<<a>>", vec![literal("<"), placeholder("a"), literal(">")]),
            ("größe:<é>!", vec![literal("größe:"), placeholder("é"), literal("!")]),
        ] {
            assert_eq!(split(template), Ok(pieces), "{template}");
        }
    }

    #[test]
    fn a_broken_template_is_an_error() {
        for (template, part) in [
            ("", "empty"),
            ("order:<id", "no `>`"),
            ("<", "no `>`"),
            ("<a<b>", "no `>`"),
            ("a:<>", "empty"),
            ("<a><b>", "separates"),
            ("x:<a>20%<b>", "separates"),
        ] {
            let error = split(template).expect_err(template);
            assert!(error.contains(part), "{template}: {error}");
        }
    }

    /// Checks that the attribute and the run time split a template in the same way. It tries every text of up to six
    /// characters over an alphabet that has one character for each case.
    #[test]
    fn the_run_time_splits_every_template_alike() {
        let alphabet = ['a', '<', '>', ':', '-', '%'];
        let mut texts = vec![String::new()];
        for start in 0.. {
            let Some(text) = texts.get(start).cloned() else { break };
            if text.len() < 6 {
                texts.extend(alphabet.iter().map(|next| format!("{text}{next}")));
            }
            let here =
                split(&text).ok().map(|pieces| pieces.into_iter().filter_map(name).collect::<Vec<_>>());
            let there = lock_core::key::KeyTemplate::parse(&text).ok();
            let there = there.map(|template| template.placeholders().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(here, there, "{text}");
        }
    }

    fn name(piece: Piece) -> Option<String> {
        match piece {
            Piece::Placeholder(name) => Some(name),
            Piece::Literal(_) => None,
        }
    }
}
