//! Generates the lock request of a call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;

use crate::backoff::Backoff;
use crate::keys::Keys;
use crate::kind::Kind;
use crate::plain::duration;
use crate::spec::LockSpec;
use crate::strategy::Strategy;
use crate::template::{Segment, Template};
use crate::tokens::private;
use crate::words::kind::KindWord;
use crate::words::strategy::StrategyWord;

// Output:
//     Request::new(current(), KeyBuilder::new().., None, "order:<id>", label).ttl(..).strategy(..)
// and with several keys
//     Request::all(current(), [KeyBuilder::new().., KeyBuilder::new()..], "a:<x>, b:<y>", label).ttl(..).strategy(..)
pub(crate) fn request(spec: &LockSpec, label: &TokenStream) -> TokenStream {
    let private = private();
    let manager = manager(spec);
    let options = options(spec);
    let rendered_from = template(&spec.keys);
    match &spec.keys {
        Keys::One(template) => {
            let key = key(template);
            let kind = match kind(spec) {
                Some(kind) => quote!(::core::option::Option::Some(#kind)),
                None => quote!(::core::option::Option::None),
            };
            quote!(#private::Request::new(#manager, #key, #kind, #rendered_from, #label) #options)
        }
        Keys::All(templates) => {
            let keys = templates.iter().map(key);
            // This kind overrides the kind of a profile.
            let kind = kind(spec).map(|kind| quote!(.of_kind(#kind)));
            quote!(#private::Request::all(#manager, [#(#keys),*], #rendered_from, #label) #kind #options)
        }
    }
}

/// Returns the text of the templates, for spans and metrics.
pub(crate) fn template(keys: &Keys) -> String {
    keys.templates().iter().map(|template| template.literal.value()).collect::<Vec<_>>().join(", ")
}

fn manager(spec: &LockSpec) -> TokenStream {
    let private = private();
    match &spec.manager {
        None => quote!(#private::LockManager::current()),
        Some(manager) => {
            // The coercion to `&LockManager` accepts a reference, an `Arc`, a `Box` and every other type that derefs to
            // a manager. The binding keeps the expected type away from the user's expression, and its `ref` does not
            // move a manager out of a field.
            let at = Span::call_site().located_at(manager.span());
            let name = Ident::new("__lock_manager", Span::mixed_site().located_at(manager.span()));
            quote_spanned!(at=> match (#manager) { ref #name => #private::manager(#name) })
        }
    }
}

// Output:
//     Kind::Semaphore { permits: 3 }
fn kind(spec: &LockSpec) -> Option<TokenStream> {
    let private = private();
    let Kind { word, permits } = spec.kind.as_ref()?;
    Some(match word {
        KindWord::Reentrant => quote!(#private::Kind::Reentrant),
        KindWord::Fair => quote!(#private::Kind::Fair),
        KindWord::Read => quote!(#private::Kind::Read),
        KindWord::Write => quote!(#private::Kind::Write),
        KindWord::Semaphore => quote!(#private::Kind::Semaphore { permits: #permits }),
    })
}

// Output:
//     .profile("checkout").ttl(..).strategy(..)
fn options(spec: &LockSpec) -> TokenStream {
    let private = private();
    let profile = spec.profile.as_ref().map(|profile| quote!(.profile(#profile)));
    let strategy = spec.strategy.as_ref().map(|strategy| match strategy {
        Strategy::Named(StrategyWord::ShedAbove(rate)) => {
            quote!(.strategy(#private::strategy::shed_above(#private::strategy::retry(), #rate)))
        }
        Strategy::Named(named) => {
            let constructor = format_ident!("{}", named.name());
            quote!(.strategy(#private::strategy::#constructor()))
        }
        Strategy::Value(value) => {
            let at = Span::call_site().located_at(value.span());
            quote_spanned!(at=> .strategy(#value))
        }
    });
    let backoff = spec.backoff.map(|Backoff { base, max }| {
        let (base, max) = (duration(base), duration(max));
        quote!(.backoff(#base, #max))
    });
    let label = spec.label.as_ref().map(text).map(|label| quote!(.label(#label)));
    let plain = &spec.plain;
    quote!(#profile #strategy #plain #backoff #label)
}

// Output:
//     KeyBuilder::new().literal("order:").value(&id).finish()
fn key(template: &Template) -> TokenStream {
    let (private, segments) = (private(), segments(template));
    quote!(#private::KeyBuilder::new() #segments .finish())
}

// Output:
//     "pay"
// and with placeholders
//     LabelBuilder::new().literal("user ").value(&user.id).finish()
fn text(template: &Template) -> TokenStream {
    if let [Segment::Literal(text)] = &template.segments[..] {
        return quote!(#text);
    }
    let (private, segments) = (private(), segments(template));
    quote!(#private::LabelBuilder::new() #segments .finish())
}

fn segments(template: &Template) -> TokenStream {
    let at = Span::call_site().located_at(template.literal.span());
    let segments = template.segments.iter().map(|segment| match segment {
        Segment::Literal(text) => quote!(.literal(#text)),
        // The error "`Money` doesn't implement `Display`" must point at the literal.
        Segment::Value(value) => quote_spanned!(at=> .value(&#value)),
    });
    quote!(#(#segments)*)
}
