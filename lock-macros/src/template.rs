//! Parses a template such as `"order:<id>:<item.sku>"` into segments.

use quote::ToTokens as _;
use syn::{Expr, LitStr};

use crate::params::Params;
use crate::placeholder::placeholder;
use crate::words::clash::{self, Values};
use crate::words::template::{Broken, Piece, split};

/// A template in the attribute, whose placeholders name parameters.
pub(crate) struct Template {
    pub(crate) literal: LitStr,
    pub(crate) segments: Vec<Segment>,
}

/// A part of a template.
pub(crate) enum Segment {
    /// Text that is part of every key or label that is rendered from this template.
    Literal(String),
    /// A value of the call, which is used by reference.
    Value(Box<Expr>),
}

impl Segment {
    /// Converts the segment to the part of a template that [`clash::clash`] compares.
    fn part(&self, params: &Params) -> clash::Part<'_> {
        match self {
            Self::Literal(text) => clash::Part::Text(text),
            Self::Value(value) => clash::Part::Value(match &**value {
                Expr::Path(path) => path.path.get_ident().map_or(Values::Text, |name| params.values(name)),
                _ => Values::Text,
            }),
        }
    }

    /// Returns whether this is the value of a parameter whose name begins with an underscore, such as `_id`.
    pub(crate) fn begins_with_underscore(&self) -> bool {
        matches!(self, Self::Value(value) if value.to_token_stream().to_string().starts_with('_'))
    }
}

impl Template {
    /// Parses the template of the option `option`, such as `key` or `label`.
    pub(crate) fn parse(literal: LitStr, option: &str, params: &Params) -> syn::Result<Self> {
        let segments = parse(&literal, option, params)?;
        Ok(Self { literal, segments })
    }
}

/// Splits the literal and checks each placeholder against the parameters.
fn parse(literal: &LitStr, option: &str, params: &Params) -> syn::Result<Vec<Segment>> {
    let error = |message: String| syn::Error::new(literal.span(), message);
    let mut segments = Vec::new();
    for piece in split(&literal.value()).map_err(|broken| error(message(broken)))? {
        segments.push(match piece {
            Piece::Literal(text) => {
                if let Some((found, name)) = foreign(&text, segments.is_empty(), params) {
                    return Err(error(format!(
                        "`{found}` is plain text here, the same for every call: write the placeholder as `<{name}>`"
                    )));
                }
                Segment::Literal(text.into())
            }
            Piece::Placeholder(text) => Segment::Value(Box::new(placeholder(&text, literal, option, params)?)),
        });
    }
    Ok(segments)
}

/// Returns a key that both templates can give although their fixed texts differ, if there is one.
pub(crate) fn clash(one: &[Segment], other: &[Segment], params: &Params) -> Option<String> {
    let [one, other] =
        [one, other].map(|segments| segments.iter().map(|segment| segment.part(params)).collect::<Vec<_>>());
    clash::clash(&one, &other)
}

/// Returns the error text for a broken template.
fn message(broken: Broken<'_>) -> String {
    match broken {
        Broken::Empty => "the key is empty: write one such as `order:<id>`".to_owned(),
        Broken::Open(_) | Broken::Inside { .. } => {
            "`<` opens a placeholder, but no `>` closes it; write `<<` for a plain `<`".to_owned()
        }
        Broken::Nameless(_) => "`<>` is an empty placeholder: name an argument, such as `<id>`".to_owned(),
        Broken::Adjacent { name, .. } => format!(
            "nothing separates the value of `<{name}>` from the value before it: put a `:` between them"
        ),
    }
}

/// Finds a parameter that is written in another placeholder syntax, such as that of format strings, routes or shells.
/// Returns the placeholder and the name in it. `first` is whether `text` is the start of the template.
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
    // Finds `:id` at the start of a part, as in `order::id`. In `order:id`, the colon only separates two parts.
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
