//! Defines names and spans of the generated code.

use proc_macro2::{Ident, Span};
use quote::{ToTokens as _, format_ident};
use syn::Type;

/// Returns the name under which the generated code imports `lock_core::__private`. Items have the hygiene of the call
/// site, so this must be a name that no user code has.
pub(crate) fn private() -> Ident {
    Ident::new("__lock_private", Span::call_site())
}

/// Returns the name of a type that is declared inside the function. The path of this type contains the path of the
/// function. Only the compiler knows that path, because the function may be a method. The path is the label in the
/// owner record, and the name in the log. A type costs less to compile than a function.
pub(crate) fn here() -> Ident {
    Ident::new("__LockHere", Span::mixed_site())
}

/// Returns the name of a generated local variable. Its hygiene makes the name different from every name in the user's
/// code.
pub(crate) fn local(name: &str) -> Ident {
    format_ident!("__lock_{name}", span = Span::mixed_site())
}

/// Returns the same name with another location for errors. The meaning of the name does not change.
pub(crate) fn located(mut name: Ident, at: Span) -> Ident {
    name.set_span(name.span().located_at(at));
    name
}

/// Returns the span of the first token, because stable Rust cannot join spans.
pub(crate) fn first_span(ty: &Type) -> Span {
    ty.to_token_stream().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}
