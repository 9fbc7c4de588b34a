//! Captures each parameter in the body as a whole. Keeps the compiler's warning about an unused parameter.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;

use crate::bindings::Parameter;
use crate::shape::Body;
use crate::spec::LockSpec;
use crate::strategy::Strategy;
use crate::template::Segment;

// Output:
//     let _ = &id; let name = name;
//
// Without these statements, the block would capture only the fields that the body mentions, and the other fields of a
// parameter would be dropped after the release. `&id` counts as a use of `id`. A parameter that is not mentioned is
// bound again instead: the compiler then warns, at the parameter, that the new binding is unused.
pub(crate) fn capture(spec: &LockSpec, body: &Body) -> TokenStream {
    let evaluated = evaluated(spec);
    let capture = |Parameter { name, attrs }: &Parameter| {
        let text = name.unraw().to_string();
        // A fallback uses every parameter.
        let is_used = spec.fallback.is_some() || text == "self";
        if is_used || mentions(&evaluated, &text) || mentions(&body.stmts, &text) {
            let cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
            quote!(#(#cfgs)* let _ = &#name;)
        } else {
            quote!(#(#attrs)* let #name = #name;)
        }
    };
    body.parameters.iter().map(capture).collect()
}

/// Returns the expressions of the attribute. A parameter that they mention counts as used.
fn evaluated(spec: &LockSpec) -> TokenStream {
    let segments = spec.templates().flat_map(|template| &template.segments);
    let values = segments.filter_map(|segment| match segment {
        Segment::Literal(_) => None,
        Segment::Value(value) => Some(value),
    });
    let permits = spec.kind.as_ref().and_then(|kind| kind.permits.as_ref());
    let strategy = if let Some(Strategy::Value(strategy)) = &spec.strategy { Some(strategy) } else { None };
    let (plain, manager) = (spec.plain.evaluated(), &spec.manager);
    quote!(#(#values)* #permits #(#plain)* #strategy #manager)
}

/// Returns whether `name` occurs in `tokens`, including string literals, in which `{name}` may be a format argument. If
/// another item has that name, the result may be wrong, but then only a warning is missing.
fn mentions(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(&group.stream(), name),
        TokenTree::Ident(ident) => ident.unraw() == name,
        TokenTree::Literal(literal) => has_word(&literal.to_string(), name),
        TokenTree::Punct(_) => false,
    })
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_wherever_it_can_be_used() {
        for (body, is_mentioned) in [
            ("id", true),
            ("ship(a, [&id]).await?", true),
            ("r#id", true),
            ("format!(\"{id:?}\")", true),
            ("format!(\"{id}\")", true),
            ("half.", false),
            ("format!(\"{ident} valid _id\")", false),
            ("ident + _id", false),
            ("", false),
        ] {
            assert_eq!(mentions(&body.parse().expect(body), "id"), is_mentioned, "{body}");
        }
    }
}
