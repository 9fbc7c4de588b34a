//! The parameters of a function, as far as a key may name them.

use proc_macro2::Ident;
use syn::{FnArg, Pat, PatIdent, PatType, Signature, Type};

use crate::clash::Values;
use crate::part::{Part, parts};
use crate::suggest::{list, nearest};

/// What the signature binds.
#[derive(Debug, Default)]
pub(crate) struct Params {
    /// Parameters that have a name, in order; `self` last.
    named: Vec<Param>,
    /// Names bound inside a pattern, such as `a` in `(a, b): (A, B)`.
    inside: Vec<Part>,
    /// Whether `#[async_trait]` replaced a pattern by a name of its own, which hides the names inside.
    replaced: bool,
}

#[derive(Debug)]
struct Param {
    ident: Ident,
    /// As text, for errors.
    name: String,
    values: Values,
}

impl Param {
    fn new(ident: &Ident, values: Values) -> Self {
        Self { ident: ident.clone(), name: ident.to_string(), values }
    }
}

impl Params {
    /// Collects the parameters of `signature`.
    pub(crate) fn of(signature: &Signature) -> Self {
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

    /// The parameter's own token, where the signature binds `name` as a whole parameter.
    ///
    /// A name that came through `macro_rules!` means something only by its own token. Where two parameters are spelt alike,
    /// only the compiler can tell which of them `name` is, and it is left as it is.
    pub(crate) fn bound(&self, name: &Ident) -> Option<Ident> {
        let mut alike = self.named.iter().filter(|param| name == param.name.as_str());
        let first = alike.next()?;
        Some(if alike.next().is_none() { first.ident.clone() } else { name.clone() })
    }

    /// What the values of the parameter `name` are made of, as far as its type says so.
    pub(crate) fn values(&self, name: &Ident) -> Values {
        let param = self.named.iter().find(|param| name == param.name.as_str());
        param.map_or(Values::Text, |param| param.values)
    }

    /// The part of a destructured parameter that `name` is.
    pub(crate) fn part(&self, name: &str) -> Option<&Part> {
        self.inside.iter().find(|part| part.name == name)
    }

    /// Whether `name` may be a part of a parameter that is not to be seen, and resembles no other name.
    pub(crate) fn may_hide(&self, name: &str) -> bool {
        self.replaced && name != "self" && nearest(name, self.names()).is_none()
    }

    /// Whether `name` is bound anywhere in the signature, as far as that can be seen.
    pub(crate) fn binds_anywhere(&self, name: &Ident) -> bool {
        self.bound(name).is_some() || self.inside.iter().any(|part| name == part.name.as_str())
    }

    /// The names a key may start with.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|param| param.name.as_str())
    }

    /// The names, for an error.
    pub(crate) fn available(&self) -> String {
        if self.named.is_empty() {
            return "the function has no arguments".to_owned();
        }
        format!("available: {}", list(self.names()))
    }
}

/// A number cannot spell what text can. Any other type may have a `Display` of its own.
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

/// `__arg1`: the name that `#[async_trait]` gives to a destructured parameter.
fn is_positional(ident: &Ident) -> bool {
    let name = ident.to_string();
    name.strip_prefix("__arg")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(signature: &str) -> Params {
        Params::of(&syn::parse_str(signature).expect(signature))
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
