//! `"order:<id>:<item.sku>"` to segments, and each placeholder to an expression over the parameters.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, LitStr, Member};

use crate::clash::{self, Values};
use crate::params::Params;
use crate::part::Part;
use crate::suggest::did_you_mean;

/// A stretch of the key.
pub(crate) enum Segment {
    /// Text that is part of every key of this template.
    Literal(String),
    /// A value of the call, taken by reference.
    Value(Box<Expr>),
}

impl Segment {
    /// As the check for clashes sees it.
    fn part(&self, params: &Params) -> clash::Part<'_> {
        match self {
            Self::Literal(text) => clash::Part::Text(text),
            Self::Value(value) => clash::Part::Value(match &**value {
                Expr::Path(path) => path.path.get_ident().map_or(Values::Text, |name| params.values(name)),
                _ => Values::Text,
            }),
        }
    }

    /// Whether it is the value of a parameter such as `_id`.
    pub(crate) fn begins_with_underscore(&self) -> bool {
        matches!(self, Self::Value(value) if value.to_token_stream().to_string().starts_with('_'))
    }
}

/// Splits the literal and checks each placeholder against the parameters.
pub(crate) fn parse(literal: &LitStr, params: &Params) -> syn::Result<Vec<Segment>> {
    let error = |message: String| syn::Error::new(literal.span(), message);
    let mut segments = Vec::new();
    for piece in split(&literal.value()).map_err(error)? {
        segments.push(match piece {
            Piece::Literal(text) => {
                if let Some((found, name)) = foreign(&text, params) {
                    return Err(error(format!(
                        "`{found}` is plain text here, the same for every call: placeholders are written `<{name}>`"
                    )));
                }
                Segment::Literal(text)
            }
            Piece::Placeholder(text) => Segment::Value(Box::new(placeholder(&text, literal, params)?)),
        });
    }
    Ok(segments)
}

/// A key that two templates can both give although their fixed texts differ.
pub(crate) fn clash(one: &[Segment], other: &[Segment], params: &Params) -> Option<String> {
    let [one, other] =
        [one, other].map(|segments| segments.iter().map(|segment| segment.part(params)).collect::<Vec<_>>());
    clash::clash(&one, &other)
}

/// A piece of the text, before placeholders mean anything.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Placeholder(String),
}

/// `"a:<b>"` to `[Literal("a:"), Placeholder("b")]`; `<<` is a plain `<`.
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

/// A placeholder as format strings, the paths of routers, shells and other libraries write it, and what stands in it.
fn foreign<'a>(text: &'a str, params: &Params) -> Option<(String, &'a str)> {
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
    after_dollar.into_iter().find(|name| is_parameter(name)).map(|name| (format!("${name}"), name))
}

/// Whether two values with this text between them can be told apart: `<a><b>` would give one key for "ab", "c" and for
/// "a", "bc". Letters, digits and `%` come in encoded values; the key builder of lock-core draws the same line.
fn separates(literal: &str) -> bool {
    literal.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'%')
}

/// The expression of one placeholder. Its tokens take the span of the literal, so that what the compiler says about
/// them ("no field `skv`") points at the text they stand in.
fn placeholder(text: &str, literal: &LitStr, params: &Params) -> syn::Result<Expr> {
    let error = |message: String| syn::Error::new(literal.span(), message);
    let mut value = expression(text, literal).ok_or_else(|| error(not_allowed(text, literal)))?;
    let root = root_of(&mut value, literal.span()).ok_or_else(|| error(not_allowed(text, literal)))?;
    if let Some(mut own) = params.bound(root) {
        own.set_span(own.span().located_at(literal.span()));
        *root = own;
        return Ok(value);
    }
    let name = root.to_string();
    let part = params.part(&name).map(|part| ("is", part.advice(text.trim())));
    let hidden = || ("may be", Part { name: name.clone(), whole: None }.advice(text));
    if let Some((is, advice)) = part.or_else(|| params.may_hide(&name).then(hidden)) {
        return Err(error(format!(
            "key placeholder `{name}` {is} a part of a destructured argument: {advice}"
        )));
    }
    if name == "self" {
        return Err(error(format!(
            "key placeholder `self`: this function has no `self`\n{}",
            params.available()
        )));
    }
    let is_constant = name.len() > 1 && name.chars().all(|char| !char.is_lowercase());
    let near = match did_you_mean(&name, params.names()) {
        near if near.is_empty() && is_constant => "; write the value of a constant into the text".to_owned(),
        near => near,
    };
    Err(error(format!("key placeholder `{name}` is not an argument{near}\n{}", params.available())))
}

/// The text as an expression. A keyword is a name here, as it cannot be anything else: `<type>` is `r#type`.
fn expression(text: &str, literal: &LitStr) -> Option<Expr> {
    let tokens: TokenStream = LitStr::new(text, literal.span()).parse().ok()?;
    let raw = |token| match token {
        TokenTree::Ident(word) if is_keyword(&word) => Ident::new_raw(&word.to_string(), word.span()).into(),
        token => token,
    };
    syn::parse2(tokens.into_iter().map(raw).collect()).ok()
}

/// Whether `word` is a name only behind `r#`. Some words are none even there, and `.await` would be taken for a field.
fn is_keyword(word: &Ident) -> bool {
    let word = word.to_string();
    !["self", "Self", "super", "crate", "_", "await", "true", "false"].contains(&word.as_str())
        && !word.starts_with("r#")
        && syn::parse_str::<Ident>(&word).is_err()
}

fn not_allowed(text: &str, literal: &LitStr) -> String {
    if let Some((value, behind)) = text.split_once(':')
        && !behind.starts_with(':')
        && expression(value, literal).is_some_and(|mut value| root_of(&mut value, literal.span()).is_some())
    {
        return format!(
            "key placeholder `<{text}>` has a type or a format after its `:`, which the attribute does not take: the \
             `Display` of the argument's own type makes the text; write `<{}>`",
            value.trim()
        );
    }
    format!(
        "key placeholder `<{text}>` is not allowed: write an argument, a field path, a tuple index or a method \
         without arguments, such as `<id>`, `<item.sku>`, `<pair.0>` or `<user.name()>`; for anything else write a \
         method that returns it"
    )
}

/// The leftmost name of `a.b.0.c()`; `None` for any other expression.
///
/// The names behind it are marked as written by this attribute: a fix that the compiler offers for one would overwrite
/// the whole literal.
fn root_of(value: &mut Expr, literal: Span) -> Option<&mut Ident> {
    let ours = Span::call_site().located_at(literal);
    match value {
        Expr::Path(path) if path.attrs.is_empty() && path.qself.is_none() => {
            path.path.get_ident()?;
            path.path.segments.first_mut().map(|segment| &mut segment.ident)
        }
        Expr::Field(field) => {
            match &mut field.member {
                Member::Named(name) => name.set_span(ours),
                Member::Unnamed(index) => index.span = ours,
            }
            root_of(&mut field.base, literal)
        }
        Expr::MethodCall(call) if call.args.is_empty() && call.turbofish.is_none() => {
            call.method.set_span(ours);
            root_of(&mut call.receiver, literal)
        }
        _ => None,
    }
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

    /// The attribute and the run time must read a template alike: every text up to six characters over an alphabet that
    /// has one character for each case.
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

    #[test]
    fn only_paths_and_bare_methods_have_a_root() {
        for (text, root) in [
            ("id", Some("id")),
            ("item.sku", Some("item")),
            ("pair.0.1", Some("pair")),
            ("self.tenant", Some("self")),
            ("user.name().first", Some("user")),
            ("a + b", None),
            ("f(x)", None),
            ("a.f(x)", None),
            ("a.f::<u8>()", None),
            ("a.await", None),
            ("a[0]", None),
            ("&a", None),
            ("a::b", None),
            ("{ a }", None),
            ("1", None),
        ] {
            let mut value: Expr = syn::parse_str(text).expect(text);
            let found = root_of(&mut value, Span::call_site()).map(|ident| ident.to_string());
            assert_eq!(found.as_deref(), root, "{text}");
        }
    }
}
