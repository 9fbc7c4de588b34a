//! Names and spans of the generated code.

use proc_macro2::{Ident, Span};
use quote::{ToTokens as _, format_ident};
use syn::Type;

/// The name under which the generated code imports `lock_core::__private`. An item has the hygiene of the call, so that nothing else may have this name.
pub(crate) fn private() -> Ident {
    Ident::new("__lock_private", Span::call_site())
}

/// A local of ours, out of reach of the user's code whatever that calls its own.
pub(crate) fn local(name: &str) -> Ident {
    format_ident!("__lock_{name}", span = Span::mixed_site())
}

/// The same name, said to stand elsewhere. What it means does not change.
pub(crate) fn located(mut name: Ident, at: Span) -> Ident {
    name.set_span(name.span().located_at(at));
    name
}

/// The span of the first token: stable Rust cannot join spans.
pub(crate) fn first_span(ty: &Type) -> Span {
    ty.to_token_stream().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}
