//! The data flow, one file a step: the tokens of the attribute become options (`args`), options and signature become a
//! specification (`spec`, with `keys`, `kind`, `backoff`, `fallback`, `rules` and what they read with; `synonyms` has the
//! words of other libraries), the function becomes a body (`shape`), and both become code (`expand`, with `request` and
//! `doc_line`). What is wrong becomes a compile error under the token it is about; a function that cannot be locked is
//! never let through.

mod args;
mod backoff;
mod bindings;
mod boxed;
mod capture;
#[allow(unreachable_pub, dead_code, reason = "the same file as in lock-core")]
mod clash;
mod doc_line;
mod duration;
mod errors;
mod expand;
mod fallback;
mod keys;
mod kind;
mod params;
mod part;
mod placeholder;
mod request;
mod rules;
mod shape;
mod spec;
mod strategy;
mod suggest;
mod synonyms;
mod template;
mod tokens;
mod value;

use proc_macro::TokenStream;

#[doc = include_str!("docs.md")]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(args.into(), &item.into()).into()
}
