//! The parameters of a function, as far as a key may name them.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{FnArg, Pat, PatIdent, Signature};

use crate::suggest::{list, nearest};

/// What the signature binds.
#[derive(Debug, Default)]
pub(crate) struct Params {
    /// Plain names, in order; `self` last.
    names: Vec<String>,
    /// Names bound inside a pattern, such as `a` in `(a, b): (A, B)`.
    inside: Vec<String>,
    /// Whether `#[async_trait]` replaced a pattern by a name of its own, which hides the names inside.
    replaced: bool,
}

impl Params {
    /// Collects the parameters of `signature`.
    pub(crate) fn of(signature: &Signature) -> Self {
        let mut params = Self::default();
        for input in &signature.inputs {
            if let FnArg::Typed(typed) = input {
                params.add(&typed.pat);
            }
        }
        if signature.receiver().is_some() {
            params.names.push("self".to_owned());
        }
        params
    }

    fn add(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Ident(PatIdent { ident, .. }) if is_positional(ident) => self.replaced = true,
            Pat::Ident(PatIdent { ident, subpat, .. }) => {
                self.names.push(ident.to_string());
                if let Some((_, inner)) = subpat {
                    self.visit_pat(inner);
                }
            }
            pattern => self.visit_pat(pattern),
        }
    }

    /// Whether the signature binds `name` as a whole parameter.
    pub(crate) fn binds(&self, name: &Ident) -> bool {
        self.names().any(|known| name == known)
    }

    /// Whether `name` is a part of a destructured parameter, or may be one and resembles no other name: the words that
    /// say so.
    pub(crate) fn inside_a_pattern(&self, name: &str) -> Option<&'static str> {
        if self.inside.iter().any(|inner| inner == name) {
            return Some("is a part");
        }
        (self.replaced && name != "self" && nearest(name, self.names()).is_none()).then_some("may be a part")
    }

    /// Whether `name` is bound anywhere in the signature, as far as that can be seen.
    pub(crate) fn binds_anywhere(&self, name: &Ident) -> bool {
        self.binds(name) || self.inside.iter().any(|inner| name == inner)
    }

    /// The names a key may start with.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The names, for an error.
    pub(crate) fn available(&self) -> String {
        if self.names.is_empty() {
            return "the function has no arguments".to_owned();
        }
        format!("available: {}", list(self.names()))
    }
}

impl<'ast> Visit<'ast> for Params {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.inside.push(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
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
        for (name, words) in [
            ("a", Some("is a part")),
            ("b", Some("is a part")),
            ("v", Some("is a part")),
            ("id", None),
            ("c", None),
        ] {
            assert_eq!(params.inside_a_pattern(name), words, "{name}");
        }
    }

    #[test]
    fn a_parameter_renamed_by_async_trait_may_hide_any_name() {
        let params = params("fn f(&self, order: u8, __arg1: (u8, u8))");
        assert_eq!(params.names().collect::<Vec<_>>(), ["order", "self"]);
        assert_eq!(params.inside_a_pattern("x"), Some("may be a part"));
        assert_eq!(params.inside_a_pattern("ordre"), None, "a misspelt name is a misspelt name");
        assert_eq!(params.inside_a_pattern("self"), None);
    }
}
