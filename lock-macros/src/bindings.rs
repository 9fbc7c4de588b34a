//! Finds the names that a signature binds, so that the body can capture them.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, PatIdent, Signature};

/// A name that the signature binds.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    /// The `#[cfg]` and lint attributes of the parameter.
    pub(crate) attrs: Vec<Attribute>,
}

/// Returns the names that the signature binds, including `self`. Names that start with an underscore are omitted,
/// because their use may trigger a lint. An `allow` would not compile in code that forbids the lint.
pub(crate) fn bindings(signature: &Signature) -> Vec<Parameter> {
    let mut all: Vec<Parameter> = Vec::new();
    for input in &signature.inputs {
        let (attrs, names) = match input {
            FnArg::Receiver(receiver) => (&receiver.attrs, vec![Ident::from(receiver.self_token)]),
            FnArg::Typed(typed) => {
                let mut names = Names::default();
                names.visit_pat(&typed.pat);
                (&typed.attrs, names.0)
            }
        };
        let is_kept = |attr: &&Attribute| {
            ["cfg", "allow", "expect", "warn", "deny", "forbid"].iter().any(|word| attr.path().is_ident(word))
        };
        let attrs: Vec<_> = attrs.iter().filter(is_kept).cloned().collect();
        for (at, name) in names.iter().enumerate() {
            // Both cases of a pattern such as `A(x) | B(x)` bind the same name. Two parameters with the same spelling
            // come from a macro, and are different names.
            if !names[..at].contains(name) && !name.to_string().starts_with('_') {
                all.push(Parameter { name: name.clone(), attrs: attrs.clone() });
            }
        }
    }
    all
}

/// Collects the names that a pattern binds.
#[derive(Default)]
struct Names(Vec<Ident>);

impl Visit<'_> for Names {
    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}
