//! A placeholder of a key to an expression over the parameters.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{Expr, LitStr, Member};

use crate::params::Params;
use crate::part::Part;
use crate::suggest::did_you_mean;

/// The expression of one placeholder. Its tokens take the span of the literal, so that what the compiler says about
/// them ("no field `skv`") points at the text they stand in.
pub(crate) fn placeholder(text: &str, literal: &LitStr, params: &Params) -> syn::Result<Expr> {
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
