//! Generates the lock request that each call makes.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;

use crate::backoff::Backoff;
use crate::keys::Keys;
use crate::kind::Kind;
use crate::spec::LockSpec;
use crate::strategy::Strategy;
use crate::template::{Segment, Template};
use crate::tokens::private;
use crate::words::choice::{OnLostWord, ReleaseWord};
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
            // This kind takes precedence over that of a profile.
            let kind = kind(spec).map(|kind| quote!(.of_kind(#kind)));
            quote!(#private::Request::all(#manager, [#(#keys),*], #rendered_from, #label) #kind #options)
        }
    }
}

/// Returns the templates as they were written, for spans and metrics.
pub(crate) fn template(keys: &Keys) -> String {
    keys.templates().iter().map(|template| template.literal.value()).collect::<Vec<_>>().join(", ")
}

fn manager(spec: &LockSpec) -> TokenStream {
    let private = private();
    match &spec.manager {
        None => quote!(#private::LockManager::current()),
        Some(manager) => {
            // A coercion to `&LockManager` accepts a reference, an `Arc`, a `Box` and anything else that derefs to one.
            // The binding hides the expected type from the user's expression, and does not move out of a field.
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
    Some(match spec.kind.as_ref()? {
        Kind::Reentrant => quote!(#private::Kind::Reentrant),
        Kind::Fair => quote!(#private::Kind::Fair),
        Kind::Read => quote!(#private::Kind::Read),
        Kind::Write => quote!(#private::Kind::Write),
        Kind::Semaphore(permits) => quote!(#private::Kind::Semaphore { permits: #permits }),
    })
}

// Output:
//     .profile("checkout").ttl(..).strategy(..)
fn options(spec: &LockSpec) -> TokenStream {
    let private = private();
    let profile = spec.profile.as_ref().map(|profile| quote!(.profile(#profile)));
    let ttl = spec.ttl.as_ref().map(|(_, ttl)| {
        let ttl = duration(*ttl);
        quote!(.ttl(#ttl))
    });
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
    let wait = spec.wait.as_ref().map(|(_, wait)| *wait);
    let [wait, renew_every, max_hold, min_hold, linger] = [
        ("wait", wait),
        ("renew_every", spec.renew_every),
        ("max_hold", spec.max_hold.as_ref().map(|(_, max)| *max)),
        ("min_hold", spec.min_hold.as_ref().map(|(_, min)| *min)),
        ("linger", spec.linger.as_ref().map(|(_, linger)| *linger)),
    ]
    .map(|(name, value)| {
        let (name, value) = (format_ident!("{name}"), duration(value?));
        Some(quote!(.#name(#value)))
    });
    let backoff = spec.backoff.map(|Backoff { base, max }| {
        let (base, max) = (duration(base), duration(max));
        quote!(.backoff(#base, #max))
    });
    let [take, max_waiters] =
        [("take", &spec.take), ("max_waiters", &spec.max_waiters)].map(|(name, value)| {
            let value = value.as_ref()?;
            let at = Span::call_site().located_at(value.span());
            let name = Ident::new(name, at);
            Some(quote_spanned!(at=> .#name(#value)))
        });
    let renew = spec.renew.map(|renew| quote!(.renew(#renew)));
    let on_lost = spec.on_lost.map(|on_lost| match on_lost {
        OnLostWord::Cancel => quote!(.on_lost(#private::OnLost::Cancel)),
        OnLostWord::Finish => quote!(.on_lost(#private::OnLost::Finish)),
    });
    let release = spec.release.map(|release| match release {
        ReleaseWord::Await => quote!(.release(#private::Release::Await)),
        ReleaseWord::Background => quote!(.release(#private::Release::Background)),
    });
    let label = spec.label.as_ref().map(text).map(|label| quote!(.label(#label)));
    quote! {
        #profile #take #ttl #strategy #wait #backoff #max_waiters #renew #renew_every #max_hold #min_hold #linger #on_lost #release #label
    }
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

fn duration(duration: Duration) -> TokenStream {
    let private = private();
    let seconds = Literal::u64_unsuffixed(duration.as_secs());
    let nanos = Literal::u32_unsuffixed(duration.subsec_nanos());
    quote!(#private::Duration::new(#seconds, #nanos))
}
