//! Collects compile errors, so that one build reports all of them.

use proc_macro2::{Span, TokenStream};

/// The errors found so far, in the order of the source.
#[derive(Debug, Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn add(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(syn::Error::new(span, message));
    }

    /// Adds an error, which may combine several errors.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value of `result`, or adds its error.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Returns all errors as one error, or `value` if there are no errors.
    pub(crate) fn or<T>(self, value: T) -> syn::Result<T> {
        self.0.map_or(Ok(value), Err)
    }

    /// Returns a `compile_error!` for each error, or `None` if there are no errors.
    pub(crate) fn into_tokens(self) -> Option<TokenStream> {
        self.0.map(|error| error.into_compile_error())
    }
}
