//! Collects the parameters that a key can name.

use proc_macro2::Ident;
use syn::{FnArg, Pat, PatIdent, PatType, Signature, Type};

use crate::part::{Part, parts};
use crate::words::clash::Values;
use crate::words::suggest::{list, nearest};

/// The names that the signature binds.
#[derive(Debug, Default)]
pub(crate) struct Params {
    /// The parameters that have a name, in order. `self` is the last.
    named: Vec<Param>,
    /// The names that are bound inside a pattern, such as `a` in `(a, b): (A, B)`.
    inside: Vec<Part>,
    /// Whether `#[async_trait]` has replaced a pattern by a generated name, which hides the names inside the pattern.
    replaced: bool,
}

#[derive(Debug)]
struct Param {
    ident: Ident,
    /// The name as text, for error texts.
    name: String,
    values: Values,
}

impl Param {
    fn new(ident: &Ident, values: Values) -> Self {
        Self { ident: ident.clone(), name: ident.to_string(), values }
    }
}

impl Params {
    pub(crate) fn new(signature: &Signature) -> Self {
        let mut params = Self::default();
        for input in &signature.inputs {
            if let FnArg::Typed(typed) = input {
                params.add(typed);
            }
        }
        if let Some(receiver) = signature.receiver() {
            params.named.push(Param::new(&Ident::from(receiver.self_token), Values::Text));
        }
        params
    }

    fn add(&mut self, typed: &PatType) {
        match &*typed.pat {
            Pat::Ident(PatIdent { ident, .. }) if is_positional(ident) => self.replaced = true,
            Pat::Ident(PatIdent { ident, subpat, .. }) => {
                self.named.push(Param::new(ident, values_of(&typed.ty)));
                if subpat.is_some() {
                    self.inside.extend(parts(typed).into_iter().filter(|part| ident != part.name.as_str()));
                }
            }
            _ => self.inside.extend(parts(typed)),
        }
    }

    /// Returns the token of the parameter `name` in the signature, if `name` is a whole parameter.
    ///
    /// If a name comes from `macro_rules!`, only its token in the signature has the right hygiene. If two parameters
    /// have the same spelling, only the compiler can distinguish them, so `name` is returned unchanged.
    pub(crate) fn bound(&self, name: &Ident) -> Option<Ident> {
        let mut alike = self.named.iter().filter(|param| name == param.name.as_str());
        let first = alike.next()?;
        Some(if alike.next().is_none() { first.ident.clone() } else { name.clone() })
    }

    /// Returns the set of characters that values of the parameter `name` can have, according to its type.
    pub(crate) fn values(&self, name: &Ident) -> Values {
        let param = self.named.iter().find(|param| name == param.name.as_str());
        param.map_or(Values::Text, |param| param.values)
    }

    /// Returns the part of a destructured parameter with this name.
    pub(crate) fn part(&self, name: &str) -> Option<&Part> {
        self.inside.iter().find(|part| part.name == name)
    }

    /// Returns whether `name` may be part of a pattern that `#[async_trait]` hides. If a visible name is similar,
    /// `name` is probably a misspelling instead.
    pub(crate) fn may_hide(&self, name: &str) -> bool {
        self.replaced && name != "self" && nearest(name, self.names()).is_none()
    }

    /// Returns whether the visible signature binds `name`, as a whole parameter or inside a pattern.
    pub(crate) fn binds_anywhere(&self, name: &Ident) -> bool {
        self.bound(name).is_some() || self.inside.iter().any(|part| name == part.name.as_str())
    }

    /// Returns the names that a placeholder can start with.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|param| param.name.as_str())
    }

    /// Returns a list of the names, for an error text.
    pub(crate) fn available(&self) -> String {
        if self.named.is_empty() {
            return "the function has no arguments".to_owned();
        }
        format!("available: {}", list(self.names()))
    }
}

/// Returns the set of characters that values of type `ty` can have. Only integers are restricted, because the `Display`
/// of any other type may write any text.
fn values_of(ty: &Type) -> Values {
    match ty {
        Type::Reference(reference) => values_of(&reference.elem),
        Type::Group(group) => values_of(&group.elem),
        Type::Path(path) if path.qself.is_none() => {
            match path.path.get_ident().map(Ident::to_string).as_deref() {
                Some("u8" | "u16" | "u32" | "u64" | "u128" | "usize") => Values::Unsigned,
                Some("i8" | "i16" | "i32" | "i64" | "i128" | "isize") => Values::Signed,
                _ => Values::Text,
            }
        }
        _ => Values::Text,
    }
}

/// Returns whether `ident` is a name such as `__arg1`, which `#[async_trait]` gives to a destructured parameter.
fn is_positional(ident: &Ident) -> bool {
    let name = ident.to_string();
    name.strip_prefix("__arg")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(signature: &str) -> Params {
        Params::new(&syn::parse_str(signature).expect(signature))
    }

    #[test]
    fn plain_names_are_available_and_parts_of_patterns_are_not() {
        let params = params(
            "fn f(&self, id: u64, mut n: u8, _x: u8, (a, Pair { b, .. }): T, _: u8, w @ (v, _): T, r#type: u8)",
        );
        assert_eq!(params.names().collect::<Vec<_>>(), ["id", "n", "_x", "w", "r#type", "self"]);
        for (name, is_a_part) in
            [("a", true), ("b", true), ("v", true), ("id", false), ("w", false), ("c", false)]
        {
            assert_eq!(params.part(name).is_some(), is_a_part, "{name}");
            assert!(!params.may_hide(name), "{name}");
        }
    }

    #[test]
    fn a_parameter_renamed_by_async_trait_may_hide_any_name() {
        let params = params("fn f(&self, order: u8, __arg1: (u8, u8))");
        assert_eq!(params.names().collect::<Vec<_>>(), ["order", "self"]);
        assert!(params.may_hide("x"));
        assert!(!params.may_hide("ordre"), "a misspelt name is a misspelt name");
        assert!(!params.may_hide("self"));
    }

    #[test]
    fn only_a_number_is_known_by_its_type() {
        let params =
            params("fn f(a: u64, b: &mut i8, c: &&usize, d: Id, e: std::num::NonZero<u8>, f: f64, g: &str)");
        let values = |name: &str| params.values(&Ident::new(name, proc_macro2::Span::call_site()));
        assert_eq!(["a", "b", "c"].map(values), [Values::Unsigned, Values::Signed, Values::Unsigned]);
        assert_eq!(["d", "e", "f", "g", "z"].map(values), [Values::Text; 5]);
    }
}
