//! Specification and body to tokens. The function is changed in place: attributes, visibility, signature, generics and
//! `where` clause stay as they are, so `self`, elided lifetimes and recursion mean what they meant.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, Type, TypeInfer, parse_quote};

use crate::args::Args;
use crate::errors::Errors;
use crate::keys::{Keys, Template};
use crate::kind::Kind;
use crate::shape::{Body, Function};
use crate::spec::{LockSpec, OnLost, Strategy};
use crate::template::Segment;

/// The whole attribute. With an error the item stays as it was, so that other errors and editors still see it; the
/// `compile_error!` beside it keeps it from ever running without the lock.
pub(crate) fn attribute(args: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let expanded = errors.take(Function::parse(item.clone())).and_then(|function| {
        let spec = LockSpec::validate(&args, &function.sig, &mut errors);
        let body = function.body(&mut errors);
        Some(locked(&function, &spec?, &body?))
    });
    match (errors.into_tokens(), expanded) {
        (None, Some(expanded)) => expanded,
        (errors, _) => quote!(#errors #item),
    }
}

// Input:
//     #[attrs] vis async fn ship(id: u64) -> Ret { stmts }
//
// Output:
//     #[attrs] #[doc = "Locked by .."] vis async fn ship(id: u64) -> Ret { locked statements }
fn locked(function: &Function, spec: &LockSpec, body: &Body) -> TokenStream {
    let Function { attrs, vis, sig, .. } = function;
    let doc = doc_line(spec, attrs.iter().any(|attr| attr.path().is_ident("doc")));
    let locked = statements(spec, body, &sig.ident);
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
//     let __lock_request = Request::new(manager, key, kind, label).ttl(..)..;
//     let __lock_outcome = match __lock_request.build() {
//         Ok(__lock_request) => __lock_request.run(async move { edge { stmts } }).await,
//         Err(__lock_error) => Err(__lock_error),
//     };
//     outcome(__lock_outcome)
//
// The key is rendered by reference before the body takes the parameters. The body is a future and no closure over one,
// so that nothing can run it twice; a strategy repeats the acquire.
fn statements(spec: &LockSpec, body: &Body, function: &Ident) -> TokenStream {
    let label = label(function);
    let request = request(spec, &label);
    let run = run(spec, body);
    // Where the return type cannot carry the outcome, the error belongs under that type, or under the name of the
    // function when there is none.
    let at = body.output.as_ref().map_or_else(|| function.span(), first_span);
    let [request_name, error, outcome] = ["request", "error", "outcome"].map(local);
    let outcome_there = Ident::new(&outcome.to_string(), outcome.span().located_at(at));
    let private_there = located(private(spec), at);
    let at = Span::call_site().located_at(at);
    let answer = if spec.skips() {
        quote_spanned!(at=> #private_there::outcome_or_skip(#outcome_there, #label))
    } else {
        quote_spanned!(at=> #private_there::outcome(#outcome_there))
    };
    // A key may name a parameter that begins with an underscore; that is no use that a lint should mind. Only then is
    // the lint silenced: a user who forbids it could not compile an `allow`.
    let mut segments = spec.keys.templates().iter().flat_map(|template| &template.segments);
    let underscore = segments.any(Segment::begins_with_underscore);
    let allow = underscore.then(|| quote!(#[allow(clippy::used_underscore_binding)]));
    quote! {
        #allow
        let #request_name = #request;
        let #outcome = match #request_name.build() {
            ::core::result::Result::Ok(#request_name) => #run,
            ::core::result::Result::Err(#error) => ::core::result::Result::Err(#error),
        };
        #answer
    }
}

// Output:
//     Request::new(current(), KeyBuilder::new().., Kind::Reentrant, label).ttl(..).strategy(..)
// and with several keys
//     Request::all(current(), [KeyBuilder::new().., KeyBuilder::new()..], label).ttl(..).strategy(..)
fn request(spec: &LockSpec, label: &TokenStream) -> TokenStream {
    let private = private(spec);
    let manager = manager(spec);
    let options = options(spec);
    match &spec.keys {
        Keys::One(template) => {
            let (key, kind) = (key(spec, template), kind(spec));
            quote!(#private::Request::new(#manager, #key, #kind, #label) #options)
        }
        Keys::All(templates) => {
            let keys = templates.iter().map(|template| key(spec, template));
            quote!(#private::Request::all(#manager, [#(#keys),*], #label) #options)
        }
    }
}

fn manager(spec: &LockSpec) -> TokenStream {
    let private = private(spec);
    match &spec.manager {
        None => quote!(#private::LockManager::current()),
        Some(manager) => {
            // A coercion to `&LockManager`, so a reference, `Arc`, `Box` or anything else that derefs to one will do.
            // The binding keeps the expected type away from the user's expression, and takes nothing out of a field.
            let at = Span::call_site().located_at(manager.span());
            let name = Ident::new("__lock_manager", Span::mixed_site().located_at(manager.span()));
            quote_spanned!(at=> match (#manager) { ref #name => #private::manager(#name) })
        }
    }
}

// Output:
//     Kind::Semaphore { permits: 3 }
fn kind(spec: &LockSpec) -> TokenStream {
    let private = private(spec);
    match &spec.kind {
        Kind::Reentrant => quote!(#private::Kind::Reentrant),
        Kind::Fair => quote!(#private::Kind::Fair),
        Kind::Read => quote!(#private::Kind::Read),
        Kind::Write => quote!(#private::Kind::Write),
        Kind::Semaphore(permits) => quote!(#private::Kind::Semaphore { permits: #permits }),
    }
}

// Output:
//     .profile("checkout").ttl(..).strategy(..)
fn options(spec: &LockSpec) -> TokenStream {
    let private = private(spec);
    let profile = spec.profile.as_ref().map(|profile| quote!(.profile(#profile)));
    let ttl = spec.ttl.as_ref().map(|(_, ttl)| {
        let ttl = duration(spec, *ttl);
        quote!(.ttl(#ttl))
    });
    let strategy = spec.strategy.as_ref().map(|strategy| match strategy {
        Strategy::Named(named) => {
            let constructor = format_ident!("{}", named.name());
            quote!(.strategy(#private::strategy::#constructor()))
        }
        Strategy::Value(value) => {
            let at = Span::call_site().located_at(value.span());
            quote_spanned!(at=> .strategy(#value))
        }
    });
    let [wait, max_hold, min_hold] =
        [("wait", spec.wait), ("max_hold", spec.max_hold), ("min_hold", spec.min_hold)].map(
            |(name, value)| {
                let (name, value) = (format_ident!("{name}"), duration(spec, value?));
                Some(quote!(.#name(#value)))
            },
        );
    let max_waiters = spec.max_waiters.as_ref().map(|max| {
        let at = Span::call_site().located_at(max.span());
        quote_spanned!(at=> .max_waiters(#max))
    });
    let renew = spec.renew.map(|renew| quote!(.renew(#renew)));
    let on_lost = spec.on_lost.map(|on_lost| match on_lost {
        OnLost::Cancel => quote!(.on_lost(#private::OnLost::Cancel)),
        OnLost::Finish => quote!(.on_lost(#private::OnLost::Finish)),
    });
    let label = spec.label.as_ref().map(|label| quote!(.label(#label)));
    quote!(#profile #ttl #strategy #wait #max_waiters #renew #max_hold #min_hold #on_lost #label)
}

// Output:
//     KeyBuilder::new().literal("order:").value(&id).finish()
fn key(spec: &LockSpec, template: &Template) -> TokenStream {
    let private = private(spec);
    let at = Span::call_site().located_at(template.literal.span());
    let segments = template.segments.iter().map(|segment| match segment {
        Segment::Literal(text) => quote!(.literal(#text)),
        // "`Money` doesn't implement `Display`" belongs under the literal.
        Segment::Value(value) => quote_spanned!(at=> .value(&#value)),
    });
    quote!(#private::KeyBuilder::new() #(#segments)* .finish())
}

// Output:
//     __lock_request.run(async move { keep(&id); edge { stmts } }).await
// and with a handle
//     __lock_request.run_with(move |lock: LockHandle| async move { keep(&id); edge { stmts } }).await
//
// The block begins with a look at each parameter, `keep(&id);`: it would else take over only the fields that the body
// mentions, and the rest of a parameter would be dropped after the lock was given back.
//
// The statements have braces of their own: an item in them must not shadow a name of the edge, and the user's braces
// would look superfluous to the compiler.
fn run(spec: &LockSpec, body: &Body) -> TokenStream {
    let private = private(spec);
    let request = local("request");
    let stmts = &body.stmts;
    let edge = return_edge(body.output.as_ref());
    let kept = body.parameters.iter().map(|(cfgs, name)| quote!(#(#cfgs)* #private::keep(&#name);));
    let future = quote!(async move { #(#kept)* #edge { #stmts } });
    match &spec.handle {
        None => quote!(#private::LockRequest::run(#request, #future).await),
        Some(handle) => {
            quote!(#private::LockRequest::run_with(#request, move |#handle: #private::LockHandle| #future).await)
        }
    }
}

// Output:
//     if let Some(__lock_return) = None::<Ret> { return __lock_return; }
//
// Never taken. It tells the block its type, so that a body of another type is reported at the user's expression.
fn return_edge(output: Option<&Type>) -> TokenStream {
    let Some(output) = output else {
        return quote!(if false {
            return;
        });
    };
    let mut output = output.clone();
    EraseImplTrait.visit_type_mut(&mut output);
    let returned = local("return");
    quote! {
        if let ::core::option::Option::Some(#returned) = ::core::option::Option::None::<#output> {
            return #returned;
        }
    }
}

/// `impl Trait` cannot be written inside a body; the compiler infers it.
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

// Output:
//     #[doc = ""] #[doc = "Locked by `order:<id>`, kind `read`, ttl `500ms`, strategy `retry`."]
fn doc_line(spec: &LockSpec, has_docs: bool) -> TokenStream {
    let mut line = format!("Locked by {}", locked_by(&spec.keys));
    match &spec.kind {
        Kind::Reentrant => {}
        Kind::Fair => line += ", kind `fair`",
        Kind::Read => line += ", kind `read`",
        Kind::Write => line += ", kind `write`",
        Kind::Semaphore(permits) => {
            line += &format!(", kind `semaphore`, permits {}", code(&expression(permits)));
        }
    }
    if let Some((ttl, _)) = &spec.ttl {
        line += &format!(", ttl `{}`", ttl.value().trim());
    }
    match &spec.strategy {
        Some(Strategy::Named(named)) => line += &format!(", strategy `{}`", named.name()),
        Some(Strategy::Value(value)) => line += &format!(", strategy {}", code(&expression(value))),
        None => {}
    }
    line.push('.');
    let paragraph = has_docs.then(|| quote!(#[doc = ""]));
    quote!(#paragraph #[doc = #line])
}

/// The templates as a sentence has them: `a`, `b` and `c`.
fn locked_by(keys: &Keys) -> String {
    let words: Vec<_> = keys.templates().iter().map(|template| code(&template.literal.value())).collect();
    match words.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}, all or none", first.join(", ")),
        _ => words.concat(),
    }
}

/// Text as Markdown code; text with a backtick needs a longer fence.
fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

fn expression(value: &Expr) -> String {
    value
        .to_token_stream()
        .to_string()
        .replace(" :: ", "::")
        .replace(" (", "(")
        .replace("( ", "(")
        .replace(" )", ")")
}

fn duration(spec: &LockSpec, duration: Duration) -> TokenStream {
    let private = private(spec);
    let seconds = Literal::u64_unsuffixed(duration.as_secs());
    let nanos = Literal::u32_unsuffixed(duration.subsec_nanos());
    quote!(#private::Duration::new(#seconds, #nanos))
}

/// Which function this is, for the owner record and the log.
fn label(function: &Ident) -> TokenStream {
    let name = function.unraw().to_string();
    quote!(::core::concat!(::core::module_path!(), "::", #name))
}

fn private(spec: &LockSpec) -> TokenStream {
    let krate = &spec.krate;
    quote!(#krate::__private)
}

/// A local of ours, out of reach of the user's code whatever that calls its own.
fn local(name: &str) -> Ident {
    format_ident!("__lock_{name}", span = Span::mixed_site())
}

/// The same tokens, said to stand elsewhere. What their names mean does not change.
fn located(tokens: TokenStream, at: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(token.span().located_at(at));
        token
    };
    tokens.into_iter().map(respan).collect()
}

/// The span of the first token: stable Rust cannot join spans.
fn first_span(ty: &Type) -> Span {
    ty.to_token_stream().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(args: &str, item: &str) -> String {
        attribute(args.parse().expect(args), &item.parse().expect(item)).to_string()
    }

    const SHIP: &str = "async fn ship(id: u64) -> Result<u64, LockError> { Ok(id) }";

    #[test]
    fn the_docs_say_what_locks_the_function() {
        for (options, line) in [
            (r#"key = "order:<id>""#, "Locked by `order:<id>`."),
            (
                r#"key = "order:<id>", ttl = "500ms", strategy = "retry""#,
                "Locked by `order:<id>`, ttl `500ms`, strategy `retry`.",
            ),
            (r#"key = "a`b", strategy = my::own(3)"#, "Locked by `` a`b ``, strategy `my::own(3)`."),
            (r#"key = "order:<id>", kind = "reentrant""#, "Locked by `order:<id>`."),
            (r#"key = "a", kind = "fair", ttl = "5s""#, "Locked by `a`, kind `fair`, ttl `5s`."),
            (r#"key = "a", kind = "read""#, "Locked by `a`, kind `read`."),
            (r#"key = "a", kind = "write""#, "Locked by `a`, kind `write`."),
            (
                r#"key = "a", kind = "semaphore", permits = 3"#,
                "Locked by `a`, kind `semaphore`, permits `3`.",
            ),
            (
                r#"key = "a", kind = "semaphore", permits = pool::SIZE"#,
                "Locked by `a`, kind `semaphore`, permits `pool::SIZE`.",
            ),
            (r#"keys = ["a:<id>"]"#, "Locked by `a:<id>`."),
            (r#"keys = ["a:<id>", "b"]"#, "Locked by `a:<id>` and `b`, all or none."),
            (
                r#"keys = ["c", "b", "a"], strategy = "wait""#,
                "Locked by `c`, `b` and `a`, all or none, strategy `wait`.",
            ),
        ] {
            let expanded = expand(options, SHIP);
            assert!(expanded.contains(line), "{options}: {expanded}");
        }
    }

    /// An editor, and every other diagnostic, still sees the function; the build fails all the same.
    #[test]
    fn with_an_error_the_item_stays_as_it_was() {
        for (options, item) in [
            (r#"key = "order:<idd>""#, SHIP),
            (r#"key = "order""#, "struct Shop;"),
            (r#"key = "order""#, "fn ship() -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(now()) }"),
            (r#"key = "order""#, "fn ship() {}"),
            ("", SHIP),
        ] {
            let expanded = expand(options, item);
            let item: TokenStream = item.parse().expect(item);
            assert!(expanded.ends_with(&item.to_string()), "{options}: {expanded}");
            assert!(expanded.contains("compile_error"), "{options}: {expanded}");
        }
    }

    /// The body is not parsed: half-typed code keeps the errors of the compiler.
    #[test]
    fn a_half_typed_body_is_passed_on() {
        let expanded = expand(r#"key = "order""#, "async fn ship(s: Shop) -> Result<(), LockError> { s. }");
        assert!(expanded.contains("{ s . }") && !expanded.contains("compile_error"), "{expanded}");
    }
}
