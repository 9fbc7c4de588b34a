//! Describes the parts of destructured parameters, and how a key can name them.

use quote::ToTokens;
use syn::{Member, Pat, PatType, Type};

/// A name that is bound inside the pattern of a parameter.
#[derive(Debug)]
pub(crate) struct Part {
    /// The name, such as `id` in `Path(id): Path<u64>`.
    pub(crate) name: String,
    /// A suggestion that gives the parameter a name and writes the part as its field, such as `id: Path<u64>` and
    /// `id.0`. `None` means that the part cannot be written as a field.
    pub(crate) whole: Option<(String, String)>,
}

impl Part {
    /// Returns the advice in the error text for a `placeholder` that is the name of this part, or starts with that
    /// name.
    pub(crate) fn advice(&self, placeholder: &str) -> String {
        let rest = placeholder.strip_prefix(&self.name).unwrap_or_default();
        let named = match &self.whole {
            Some((parameter, place)) => {
                format!("write the parameter as `{parameter}` and the placeholder as `<{place}{rest}>`")
            }
            None => "give the parameter a name, such as `pair: (A, B)` with `<pair.0>`".to_owned(),
        };
        format!("{named}, and destructure it in the body")
    }
}

/// Returns the names that the pattern of `parameter` binds.
pub(crate) fn parts(parameter: &PatType) -> Vec<Part> {
    let mut found = Vec::new();
    walk(&parameter.pat, Some(String::new()), &mut found);
    let name = match &*found {
        [(only, _)] => only.clone(),
        _ => name_for(&parameter.ty),
    };
    let ty = source(&parameter.ty);
    found
        .into_iter()
        .map(|(part, path)| Part {
            name: part,
            whole: path.map(|path| (format!("{name}: {ty}"), format!("{name}{path}"))),
        })
        .collect()
}

/// Collects each name with the path of fields to it, such as `.0.sku`. The path is `None` if fields alone do not lead
/// to the name.
fn walk(pattern: &Pat, path: Option<String>, found: &mut Vec<(String, Option<String>)>) {
    let below = |field: &dyn std::fmt::Display| path.as_ref().map(|path| format!("{path}.{field}"));
    match pattern {
        Pat::Ident(pattern) => {
            found.push((pattern.ident.to_string(), path.clone()));
            if let Some((_, inner)) = &pattern.subpat {
                walk(inner, path, found);
            }
        }
        Pat::Tuple(tuple) => elements(&tuple.elems, below, found),
        Pat::TupleStruct(tuple) => elements(&tuple.elems, below, found),
        Pat::Struct(fields) => {
            for field in &fields.fields {
                let name: &dyn std::fmt::Display = match &field.member {
                    Member::Named(name) => name,
                    Member::Unnamed(index) => &index.index,
                };
                walk(&field.pat, below(name), found);
            }
        }
        Pat::Reference(inner) => walk(&inner.pat, path, found),
        Pat::Paren(inner) => walk(&inner.pat, path, found),
        Pat::Type(inner) => walk(&inner.pat, path, found),
        Pat::Or(cases) => cases.cases.iter().take(1).for_each(|case| walk(case, None, found)),
        Pat::Slice(slice) => slice.elems.iter().for_each(|element| walk(element, None, found)),
        _ => {}
    }
}

fn elements<'a>(
    elements: impl IntoIterator<Item = &'a Pat>,
    below: impl Fn(&dyn std::fmt::Display) -> Option<String>,
    found: &mut Vec<(String, Option<String>)>,
) {
    let mut counted = true;
    for (index, element) in elements.into_iter().enumerate() {
        // Elements after `..` have no known index, because they are counted from the end.
        counted &= !matches!(element, Pat::Rest(_));
        walk(element, below(&index).filter(|_| counted), found);
    }
}

/// Suggests a name for a parameter of this type, such as `path` for `Path<..>`.
fn name_for(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .map_or_else(|| "whole".to_owned(), |segment| segment.ident.to_string().to_lowercase()),
        Type::Reference(reference) => name_for(&reference.elem),
        Type::Tuple(tuple) if tuple.elems.len() == 2 => "pair".to_owned(),
        _ => "whole".to_owned(),
    }
}

/// Returns the type as text, with roughly the original spaces.
fn source(ty: &Type) -> String {
    let mut text = ty.to_token_stream().to_string();
    for (spaced, plain) in [(" :: ", "::"), (" < ", "<"), (" >", ">"), (" ,", ","), ("& ", "&")] {
        text = text.replace(spaced, plain);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_told_by_the_fields_that_lead_to_it() {
        for (parameter, placeholder, says) in [
            (
                "Path(id): Path",
                "id",
                "write the parameter as `id: Path` and the placeholder as `<id.0>`, and destructure it in the body",
            ),
            ("Path(order): Path", "order.sku", "`order: Path` and the placeholder as `<order.0.sku>`"),
            (
                "Path((a, b)): axum::Path<(A, B)>",
                "b",
                "`path: axum::Path<(A, B)>` and the placeholder as `<path.0.1>`",
            ),
            ("(a, _): (A, B)", "a", "`a: (A, B)` and the placeholder as `<a.0>`"),
            ("(a, b): (A, B)", "b", "`pair: (A, B)` and the placeholder as `<pair.1>`"),
            ("(a, b, c): T", "c.x()", "`t: T` and the placeholder as `<t.2.x()>`"),
            (
                "Order { id, item: (sku, ref n), .. }: Order",
                "n",
                "`order: Order` and the placeholder as `<order.item.1>`",
            ),
            ("&(a, ref b): &(A, B)", "a", "`pair: &(A, B)` and the placeholder as `<pair.0>`"),
            ("(a, .., b): T", "b", "such as `pair: (A, B)` with `<pair.0>`"),
            ("[a, ..]: [A; 3]", "a", "such as `pair: (A, B)` with `<pair.0>`"),
            ("all @ Pair(one): Pair", "one", "`pair: Pair` and the placeholder as `<pair.0>`"),
        ] {
            let signature: syn::Signature = syn::parse_str(&format!("fn f({parameter})")).expect(parameter);
            let Some(syn::FnArg::Typed(typed)) = signature.inputs.first() else { panic!("{parameter}") };
            let parts = parts(typed);
            let part = parts.iter().find(|part| placeholder.starts_with(&part.name)).expect(placeholder);
            let advice = part.advice(placeholder);
            assert!(advice.contains(says), "{parameter}: {advice}");
        }
    }
}
