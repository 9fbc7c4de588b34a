//! The crate has one file for each step of the data flow:
//!
//! - `args` parses the tokens of the attribute into options.
//! - `spec` validates options and signature into a specification. Complex options have their own files (`keys`, `kind`,
//!   `strategy`, `backoff`, `fallback`), and `plain` reads the others. `rules` refuses options that contradict each
//!   other.
//! - `words` parses the words and units of all options. `words` is a link to a folder of lock-core, because a
//!   configuration file uses the same words.
//! - `shape` finds the body of the function.
//! - `expand` generates the code, with `request`, `capture` and `doc_line`.
//!
//! A mistake becomes a compile error at the token that causes it. A function that cannot be locked never compiles.

mod args;
mod backoff;
mod bindings;
mod boxed;
mod capture;
mod doc_line;
mod errors;
mod expand;
mod fallback;
mod keys;
mod kind;
mod params;
mod part;
mod placeholder;
mod plain;
mod request;
mod rules;
mod shape;
mod spec;
mod strategy;
mod template;
mod tokens;
mod value;
#[allow(unreachable_pub, dead_code, reason = "the same files as in lock-core")]
mod words;

use proc_macro::TokenStream;

#[doc = include_str!("docs.md")]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(args.into(), &item.into()).into()
}
