//! The names that a signature binds, for the body to take over.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, PatIdent, Signature};

/// A name that the signature binds.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    /// The `#[cfg]`s and the levels of lints that stand before the parameter.
    pub(crate) attrs: Vec<Attribute>,
}

/// The names that the signature binds, `self` included. Not those that begin with an underscore: to mention one of them
/// is what a lint of the user may mind, and an `allow` is what a user who forbids that lint could not compile.
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
        let told = |attr: &&Attribute| {
            ["cfg", "allow", "expect", "warn", "deny", "forbid"].iter().any(|word| attr.path().is_ident(word))
        };
        let attrs: Vec<_> = attrs.iter().filter(told).cloned().collect();
        for (at, name) in names.iter().enumerate() {
            // The cases of `A(x) | B(x)` bind one name. In two parameters the same word is two names, of a macro's code.
            if !names[..at].contains(name) && !name.to_string().starts_with('_') {
                all.push(Parameter { name: name.clone(), attrs: attrs.clone() });
            }
        }
    }
    all
}

/// The names that a pattern binds.
#[derive(Default)]
struct Names(Vec<Ident>);

impl Visit<'_> for Names {
    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}
