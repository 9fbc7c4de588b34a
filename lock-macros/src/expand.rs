//! Generates the code from the specification and the body. Only the statements of the function are replaced. Its
//! attributes, visibility, signature, generics and `where` clause stay as they are, so `self`, elided lifetimes and
//! recursion keep their meaning.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{ExprPath, Type, TypeInfer, parse_quote};

use crate::args::Args;
use crate::capture;
use crate::doc_line;
use crate::errors::Errors;
use crate::fallback::Handover;
use crate::keys::Keys;
use crate::request;
use crate::shape::{Body, Function};
use crate::spec::LockSpec;
use crate::template::Segment;
use crate::tokens::{first_span, here, local, located, private};
use crate::value::integer;

/// Expands the attribute. After an error, the item keeps its body and its signature, so that editors and other
/// diagnostics still find it. A `compile_error!` next to the item prevents the item from running without the lock.
pub(crate) fn attribute(args: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let Some(function) = errors.take(Function::parse(item.clone())) else {
        let errors = errors.into_tokens();
        return quote!(#errors #item);
    };
    let spec = LockSpec::validate(&args, &function.sig, &mut errors);
    let body = function.body(&mut errors);
    match (errors.into_tokens(), spec, body) {
        (None, Some(spec), Some(body)) => locked(&function, &spec, &body),
        (errors, ..) => {
            let item = function.with_parameters_used();
            quote!(#errors #item)
        }
    }
}

// Input:
//     #[attrs] vis async fn ship(id: u64) -> Ret { stmts }
//
// Output:
//     #[attrs] #[doc = "Locked by .."] vis async fn ship(id: u64) -> Ret { locked statements }
fn locked(function: &Function, spec: &LockSpec, body: &Body) -> TokenStream {
    let Function { attrs, vis, sig, .. } = function;
    let doc = doc_line::doc_line(spec, attrs.iter().any(|attr| attr.path().is_ident("doc")));
    let handover = spec.fallback.as_ref().map(|path| (path, Handover::new(sig)));
    let locked = statements(spec, body, &sig.ident, handover.as_ref());
    let sig = handover.as_ref().map_or(sig, |(_, handover)| &handover.signature);
    let block = match &body.boxed_by {
        None => locked,
        Some(box_pin) => quote!(#box_pin(async move { #locked })),
    };
    quote! {
        #(#attrs)*
        #doc
        #vis #sig { #block }
    }
}

// Input:
//     stmts
//
// Output:
//     use ::lock_core::__private as __lock_private;
//     __lock_private::named_profile! { "checkout", "ship", false, false, 1 }   (with a profile)
//     __lock_private::named_template! { "order:<id>" }                  (without a manager)
//     enum __LockHere {}
//     let __lock_request = Request::new(manager, key, kind, template, label).ttl(..)..;
//     let __lock_outcome = __lock_request.run(async move { edge { stmts } }).await;
//     outcome(__lock_outcome)
// Output, with a handle or a fallback:
//     let __lock_outcome = match __lock_request.acquire().await {
//         Ok(__lock_held) => {
//             let lock: LockHandle = __lock_held.handle();
//             __lock_held.run(async move { edge { stmts } }).await
//         }
//         Err(__lock_error) if falls_back(&__lock_error) => return pay_later(id).await,
//         Err(__lock_error) => Err(__lock_error),
//     };
//     outcome(__lock_outcome)
//
// The key is rendered by reference before the body captures the parameters. The body is a future, not a closure that
// returns a future, so it cannot run twice. A strategy repeats only the attempts to acquire the lock. In the second
// form, the body captures the parameters after the lock is acquired, so that they can be passed to a fallback instead.
fn statements(
    spec: &LockSpec,
    body: &Body,
    function: &Ident,
    handover: Option<&(&ExprPath, Handover)>,
) -> TokenStream {
    let label = label();
    let private = private();
    let support = support(spec);
    let here = here();
    let (named_profile, named_template) = (named_profile(spec, function), named_template(spec));
    let request = request::request(spec, &label);
    let future = future(spec, body, handover.map(|(_, handover)| handover));
    let falls_back = handover.map(|(path, handover)| falls_back(body, path, handover));
    let answer = answer(spec, body, function, &label);
    // A template may use a parameter whose name starts with an underscore, and this use must not trigger a lint. The
    // lint is allowed only in that case, because an `allow` does not compile in code that forbids the lint.
    let mut segments = spec.templates().flat_map(|template| &template.segments);
    let allow = segments.any(Segment::begins_with_underscore).then(allow_underscore);
    let [request_name, held, error, outcome] = ["request", "held", "error", "outcome"].map(local);
    let run = if spec.handle.is_none() && handover.is_none() {
        quote!(#private::Request::run(#request_name, #future).await)
    } else {
        let handle = spec
            .handle
            .as_ref()
            .map(|handle| quote!(let #handle: #private::LockHandle = #private::Held::handle(&#held);));
        quote! {
            match #private::Request::acquire(#request_name).await {
                ::core::result::Result::Ok(#held) => {
                    #handle
                    #private::Held::run(#held, #future).await
                }
                #falls_back
                ::core::result::Result::Err(#error) => ::core::result::Result::Err(#error),
            }
        }
    };
    quote! {
        #support
        #named_profile
        #named_template
        enum #here {}
        #allow
        let #request_name = #request;
        let #outcome = #run;
        #answer
    }
}

// Output:
//     outcome(__lock_outcome)
//
// If the return type cannot express the outcome, the error must point at that type. If the function has no return type,
// the error must point at the name of the function.
fn answer(spec: &LockSpec, body: &Body, function: &Ident, label: &TokenStream) -> TokenStream {
    let at = body.output.as_ref().map_or_else(|| function.span(), first_span);
    let outcome = located(local("outcome"), at);
    let private = located(private(), at);
    let at = Span::call_site().located_at(at);
    if spec.skips() {
        quote_spanned!(at=> #private::outcome_or_skip(#outcome, #label))
    } else {
        quote_spanned!(at=> #private::outcome(#outcome))
    }
}

// Output:
//     Err(__lock_error) if falls_back(&__lock_error) => {
//         let __lock_fallback = pay_later(self, id);
//         return of_fallback::<Ret, _>(__lock_fallback.await);
//     }
//
// Errors in the call, such as wrong types or arguments, must point at the path of the fallback.
fn falls_back(body: &Body, path: &ExprPath, handover: &Handover) -> TokenStream {
    let private = private();
    let [error, fallback] = ["error", "fallback"].map(local);
    let allow = handover.begins_with_underscore().then(allow_underscore);
    let arguments = &handover.arguments;
    let at = Span::call_site().located_at(path.span());
    let fallback_there = located(fallback.clone(), path.span());
    let call = quote_spanned!(at=> #path(#(#arguments),*));
    let mut output = body.output.clone().unwrap_or_else(|| parse_quote!(()));
    EraseImplTrait.visit_type_mut(&mut output);
    let private_there = located(private.clone(), path.span());
    let answer = quote_spanned!(at=> return #private_there::of_fallback::<#output, _>(#fallback_there.await));
    quote! {
        ::core::result::Result::Err(#error) if #private::falls_back(&#error) => {
            #allow
            let #fallback = #call;
            #answer;
        }
    }
}

fn allow_underscore() -> TokenStream {
    quote!(#[allow(clippy::used_underscore_binding)])
}

// Output:
//     async move { let _ = &id; edge { stmts } }
//
// The statements need their own braces, so that an item in them does not shadow a name in `edge`. The user's braces
// would trigger a lint about superfluous braces, so new braces are generated.
fn future(spec: &LockSpec, body: &Body, handover: Option<&Handover>) -> TokenStream {
    let stmts = &body.stmts;
    let edge = return_edge(body.output.as_ref());
    let unpack = handover.map(|handover| &handover.unpack);
    let captured = capture::capture(spec, body);
    quote!(async move { #unpack #captured #edge { #stmts } })
}

// Output:
//     if false { return never::<Ret>(); }
//
// This branch never runs. It determines the type of the block, so that the compiler reports a wrong type at the user's
// expression.
fn return_edge(output: Option<&Type>) -> TokenStream {
    let Some(output) = output else {
        return quote!(if false {
            return;
        });
    };
    let private = private();
    let mut output = output.clone();
    EraseImplTrait.visit_type_mut(&mut output);
    quote! {
        if false {
            return #private::never::<#output>();
        }
    }
}

/// Replaces `impl Trait`, which is not allowed inside a body, by `_`, which the compiler infers.
struct EraseImplTrait;

impl VisitMut for EraseImplTrait {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(_) = ty {
            let infer: TypeInfer = parse_quote!(_);
            *ty = Type::Infer(infer);
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}

/// Generates an expression that returns the path of the function; see [`here`].
fn label() -> TokenStream {
    let (private, here) = (private(), here());
    quote!(#private::path_around::<#here>())
}

// Output:
//     named_profile! { "checkout", "ship", false, false, 1 }
//
// This macro registers the profile, so that a check at start-up finds it even if the function is never called. The
// first `bool` is whether the function locks several keys, and the second is whether the attribute sets a kind. The
// number is `take`, which is checked if the kind comes from the profile.
fn named_profile(spec: &LockSpec, function: &Ident) -> Option<TokenStream> {
    let (profile, private) = (spec.profile.as_ref()?, private());
    let (function, several) = (function.to_string(), matches!(spec.keys, Keys::All(_)));
    let taken = spec.plain.number("take").filter(|_| spec.kind.is_none()).and_then(integer);
    let take = Literal::u64_unsuffixed(taken.unwrap_or(1));
    let has_kind = spec.kind.is_some();
    Some(quote!(#private::named_profile! { #profile, #function, #several, #has_kind, #take }))
}

// Output:
//     named_template! { "order:<id>" }
//
// This macro registers the template, so that the installed manager reports its metrics with the value zero even if the
// function is never called. If the attribute has a `manager`, no template is registered, because the manager is known
// only when the function is called.
fn named_template(spec: &LockSpec) -> Option<TokenStream> {
    if spec.manager.is_some() {
        return None;
    }
    let (private, template) = (private(), request::template(&spec.keys));
    Some(quote!(#private::named_template! { #template }))
}

/// Generates the import of the module of lock-core that the generated code calls. No other generated code names the
/// crate, so a missing crate causes only one error.
fn support(spec: &LockSpec) -> TokenStream {
    let krate = &spec.krate;
    let private = private();
    quote!(use #krate::__private as #private;)
}

#[cfg(test)]
mod tests;
