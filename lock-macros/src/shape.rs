//! Recognises the shape of a function, and finds its body.
//!
//! An unknown shape is always an error, because a body that is not found would run without the lock.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::spanned::Spanned as _;
use syn::{Attribute, ReturnType, Signature, Token, Type, Visibility, braced, token};

use crate::bindings::{Parameter, bindings};
use crate::boxed::{Pinned, is_impl_future, only_box_pin, pinned_output};
use crate::errors::Errors;

/// The function under the attribute.
pub(crate) struct Function {
    /// All attributes of the function. Inner attributes (`#![allow(..)]`) are converted to outer attributes, and come
    /// last.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    braces: token::Brace,
    /// The statements, which are not parsed, so that the compiler reports the errors of incomplete code itself.
    stmts: TokenStream,
}

/// The body of a function, and its type.
pub(crate) struct Body {
    /// The statements that run under the lock.
    pub(crate) stmts: TokenStream,
    /// The type of the statements, or `None` if the function has no return type.
    pub(crate) output: Option<Type>,
    /// The names that the signature binds. This is empty if `#[async_trait]` has moved the parameters into its own
    /// block.
    pub(crate) parameters: Vec<Parameter>,
    /// The path `Box::pin` if the statements are inside `Box::pin(async move { .. })`, or `None` for an `async fn`.
    pub(crate) boxed_by: Option<TokenStream>,
}

impl Function {
    /// Parses the item. If the item is not a function with a body, returns an error that explains what to do.
    pub(crate) fn parse(item: TokenStream) -> syn::Result<Self> {
        let read = |input: ParseStream<'_>| {
            let mut attrs = input.call(Attribute::parse_outer)?;
            let vis = input.parse()?;
            refuse_other_items(&input.fork())?;
            let sig: Signature = input.parse()?;
            if input.peek(Token![;]) {
                let message = "a trait method without a body has nothing to lock: put `#[distributed_lock]` on the \
                               implementations, or give the method a default body";
                return Err(syn::Error::new(sig.ident.span(), message));
            }
            let content;
            let braces = braced!(content in input);
            let inner = content.call(Attribute::parse_inner)?;
            attrs.extend(inner.into_iter().map(|mut attr| {
                attr.style = syn::AttrStyle::Outer;
                attr
            }));
            Ok(Self { attrs, vis, sig, braces, stmts: content.parse()? })
        };
        read.parse2(item)
    }

    /// Finds the body, and refuses a function that cannot be locked.
    pub(crate) fn body(&self, errors: &mut Errors) -> Option<Body> {
        if !self.refuse_qualifiers(errors) {
            return None;
        }
        if self.sig.asyncness.is_some() {
            let output = match &self.sig.output {
                ReturnType::Default => None,
                ReturnType::Type(_, ty) => Some((**ty).clone()),
            };
            if let Some(Type::Never(never)) = &output {
                errors.add(
                    never.span(),
                    "a function that never returns cannot report that the lock was not acquired",
                );
                return None;
            }
            let parameters = bindings(&self.sig);
            return Some(Body { stmts: self.stmts.clone(), output, parameters, boxed_by: None });
        }
        errors.take(self.boxed_body())
    }

    /// Refuses `const` and `extern`. Returns `false` if the function has one of these qualifiers, because further
    /// errors would only be consequences.
    fn refuse_qualifiers(&self, errors: &mut Errors) -> bool {
        if let Some(constness) = &self.sig.constness {
            let message = "a `const fn` cannot be locked, because acquiring a lock is I/O: write `async fn` instead of \
                           `const fn`";
            errors.add(constness.span, message);
        }
        if let Some(abi) = &self.sig.abi {
            errors.add(
                abi.span(),
                "an `extern` function cannot be locked, because its caller cannot await: acquire the lock inside it",
            );
        }
        self.sig.constness.is_none() && self.sig.abi.is_none()
    }

    // Input (a method that `#[async_trait]` has changed):
    //     fn f<'a>(..) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> { Box::pin(async move { stmts }) }
    //
    // Output:
    //     Body { stmts, output: T, boxed_by: Box::pin }
    fn boxed_body(&self) -> syn::Result<Body> {
        let ReturnType::Type(_, ret) = &self.sig.output else { return Err(self.not_async()) };
        if is_impl_future(ret) {
            return Err(impl_future(ret));
        }
        let output = match pinned_output(ret) {
            Pinned::No => return Err(self.not_async()),
            Pinned::Unclear => return Err(unclear(ret.span())),
            Pinned::Future(output) => output,
        };
        let (boxed_by, stmts) = only_box_pin.parse2(self.stmts.clone()).map_err(|_| unclear(ret.span()))?;
        let (output, boxed_by) = (Some(output.clone()), Some(boxed_by));
        Ok(Body { stmts, output, parameters: Vec::new(), boxed_by })
    }

    // Input:
    //     #[attrs] vis fn ship(id: u64) { stmts }
    //
    // Output:
    //     #[attrs] vis fn ship(id: u64) { let _ = &id; stmts }
    //
    // This item is generated next to an error. Without `let _`, the compiler would warn about a parameter that only the
    // attribute uses.
    pub(crate) fn with_parameters_used(&self) -> TokenStream {
        let Self { attrs, vis, sig, braces, stmts } = self;
        let uses = bindings(sig).into_iter().map(|Parameter { name, attrs }| {
            let cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
            quote!(#(#cfgs)* let _ = &#name;)
        });
        let mut item = quote!(#(#attrs)* #vis #sig);
        // The user's braces are kept, so that compiler errors about the body still point at the right place.
        braces.surround(&mut item, |item| item.extend(quote!(#(#uses)* #stmts)));
        item
    }

    fn not_async(&self) -> syn::Error {
        syn::Error::new(
            self.sig.fn_token.span,
            "only an `async fn` can be locked\nhelp: add `async`; if another attribute such as `#[tokio::main]` removes \
             it, put `#[distributed_lock]` above that attribute",
        )
    }
}

/// Refuses every item that is not a function.
fn refuse_other_items(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() {
        if input.parse::<Option<syn::Lit>>().is_ok_and(|abi| abi.is_some()) {
            continue;
        }
        if input.peek(Token![|]) || input.peek(Token![||]) {
            return Err(closure(input.span()));
        }
        let word = input.call(Ident::parse_any).map_err(|error| not_a_function(error.span(), None))?;
        match word.to_string().as_str() {
            "fn" => return Ok(()),
            "gen" => {
                let message = "a generator cannot be locked, because it yields values while it runs: lock the `async fn` that \
                               consumes them";
                return Err(syn::Error::new(word.span(), message));
            }
            "async" | "const" | "unsafe" | "extern" | "safe" | "default" => {}
            "let" | "move" => return Err(closure(word.span())),
            "impl" | "trait" => {
                let message = format!("put `#[distributed_lock]` on each `async fn` inside this `{word}`");
                return Err(syn::Error::new(word.span(), message));
            }
            other => return Err(not_a_function(word.span(), Some(other))),
        }
    }
    Err(not_a_function(Span::call_site(), None))
}

fn closure(span: Span) -> syn::Error {
    syn::Error::new(span, "a closure cannot be locked: pass its future to `LockManager::lock(key).run(..)`")
}

fn not_a_function(span: Span, found: Option<&str>) -> syn::Error {
    let found = match found {
        Some(found @ ("struct" | "enum" | "union" | "mod" | "static" | "type" | "use")) => {
            format!(", not on `{found}`")
        }
        _ => String::new(),
    };
    syn::Error::new(span, format!("`#[distributed_lock]` goes on an `async fn`{found}"))
}

fn unclear(span: Span) -> syn::Error {
    syn::Error::new(
        span,
        "it is not clear where the body of this function starts, and it must not run without the lock\nhelp: put \
         `#[distributed_lock]` on the `async fn`, below `#[async_trait]` and above every attribute that rewrites the \
         body; a function written by hand must be `Box::pin(async move { .. })` and nothing else",
    )
}

fn impl_future(ret: &Type) -> syn::Error {
    syn::Error::new(
        ret.span(),
        "a function that returns `impl Future` cannot be locked, because the code before its future would run without the \
         lock\nhelp: write it as an `async fn` that returns the output of the future",
    )
}
