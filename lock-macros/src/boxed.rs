//! Recognizes functions that return a boxed future, as `#[async_trait]` generates them.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::parse::ParseStream;
use syn::{ExprPath, GenericArgument, PathArguments, Token, Type, TypeParamBound, braced, parenthesized};

/// Returns whether `ty` is `impl Future<..>`, with or without other bounds.
pub(crate) fn is_impl_future(ty: &Type) -> bool {
    let Type::ImplTrait(object) = ty else { return false };
    object.bounds.iter().any(|bound| match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.last().is_some_and(|segment| segment.ident == "Future")
        }
        _ => false,
    })
}

pub(crate) enum Pinned<'a> {
    /// The type is not a pinned box.
    No,
    /// The type is a pinned box, but its output type cannot be found.
    Unclear,
    /// The type is `Pin<Box<dyn Future<Output = T>>>`. The field is `T`.
    Future(&'a Type),
}

/// Returns the `T` of `Pin<Box<dyn Future<Output = T> + ..>>`.
pub(crate) fn pinned_output(ty: &Type) -> Pinned<'_> {
    let Some(pinned) = generic_of(ty, "Pin") else { return Pinned::No };
    let Some(Type::TraitObject(object)) = generic_of(pinned, "Box") else { return Pinned::Unclear };
    let output = object.bounds.iter().find_map(|bound| match bound {
        TypeParamBound::Trait(bound) => future_output(&bound.path),
        _ => None,
    });
    output.map_or(Pinned::Unclear, Pinned::Future)
}

/// Returns the `T` of `Future<Output = T>`.
fn future_output(path: &syn::Path) -> Option<&Type> {
    let segment = path.segments.last().filter(|segment| segment.ident == "Future")?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
        _ => None,
    })
}

/// Returns the first type argument of a path that ends in `name`.
fn generic_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

/// Returns the path `Box::pin` and the unparsed statements of `Box::pin(async move { .. })`. Any other body is an
/// error, because a statement outside of the `async` block would run without the lock.
pub(crate) fn only_box_pin(input: ParseStream<'_>) -> syn::Result<(TokenStream, TokenStream)> {
    let function: ExprPath = input.parse()?;
    let ends = function.path.segments.iter().rev().map(|segment| &segment.ident);
    if !ends.take(2).eq(["pin", "Box"]) {
        return Err(input.error("not `Box::pin`"));
    }
    let (argument, block);
    parenthesized!(argument in input);
    argument.parse::<Token![async]>()?;
    argument.parse::<Token![move]>()?;
    braced!(block in argument);
    argument.parse::<Option<Token![,]>>()?;
    // The caller's `parse2` refuses further tokens, also inside the parentheses.
    Ok((function.into_token_stream(), block.parse()?))
}
