//! x
mod args;
mod duration;
mod errors;
mod expand;
mod params;
mod shape;
mod spec;
mod suggest;
mod template;

use proc_macro::TokenStream;

/// x
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(args.into(), item.into()).into()
}
