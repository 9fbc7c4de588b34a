//! Reads the option `fallback = path`, and passes the arguments of the locked function to the fallback.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::{Attribute, Expr, ExprPath, FnArg, Pat, PatType, Signature, parse_quote};

use crate::args::Arg;
use crate::value::{expected, string, ungrouped};

pub(crate) fn fallback(arg: &Arg, signature: &Signature) -> syn::Result<ExprPath> {
    let form = "the path of an `async fn` with the same arguments, such as `pay_later` or `Self::pay_later`";
    if string(&arg.value).is_some() {
        return Err(expected(arg, "a path without quotes, such as `pay_later` or `Self::pay_later`"));
    }
    let Expr::Path(path) = ungrouped(&arg.value) else { return Err(expected(arg, form)) };
    if path.path.is_ident("self") || path.path.is_ident("Self") {
        return Err(expected(arg, form));
    }
    if is_itself(path, signature) {
        let message = format!(
            "`{}` is this function itself, which would try to acquire the lock again: name another function",
            signature.ident
        );
        return Err(syn::Error::new_spanned(path, message));
    }
    for input in &signature.inputs {
        let attrs = match input {
            FnArg::Receiver(receiver) => &receiver.attrs,
            FnArg::Typed(typed) => &typed.attrs,
        };
        if let Some(cfg) = attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
            let message = "a parameter under a `#[cfg]` cannot be passed to `fallback`: put the `#[cfg]` on \
                           the function";
            return Err(syn::Error::new_spanned(cfg, message));
        }
    }
    Ok(path.clone())
}

/// Returns whether `path` names the locked function. A name without a path is a function of the module, never a method.
fn is_itself(path: &ExprPath, signature: &Signature) -> bool {
    let function = &signature.ident;
    let mut segments = path.path.segments.iter().map(|segment| &segment.ident);
    path.qself.is_none()
        && match (segments.next(), segments.next(), segments.next()) {
            (Some(only), None, None) => only == function && signature.receiver().is_none(),
            (Some(first), Some(last), None) => first == "Self" && last == function,
            _ => false,
        }
}

/// A signature whose parameters can be passed on to the fallback as whole values.
pub(crate) struct Handover {
    pub(crate) signature: Signature,
    /// The arguments of the fallback, beginning with `self`.
    pub(crate) arguments: Vec<TokenStream>,
    /// The first statements of the body, which destructure the patterns of the original signature.
    pub(crate) unpack: TokenStream,
}

impl Handover {
    // Input:
    //     fn pay(&self, mut id: u64, (a, b): (A, B), _: C)
    //
    // Output:
    //     signature: fn pay(&self, mut id: u64, __lock_argument_1: (A, B), __lock_argument_2: C)
    //     arguments: self, id, __lock_argument_1, __lock_argument_2
    //     unpack:    let (a, b) = __lock_argument_1;
    pub(crate) fn new(signature: &Signature) -> Self {
        let mut signature = signature.clone();
        let (mut arguments, mut unpack) = (Vec::new(), TokenStream::new());
        for (position, input) in signature.inputs.iter_mut().enumerate() {
            match input {
                FnArg::Receiver(receiver) => arguments.push(receiver.self_token.to_token_stream()),
                FnArg::Typed(typed) => {
                    let (name, unpacked) = whole(typed, position);
                    arguments.push(name.into_token_stream());
                    unpack.extend(unpacked);
                }
            }
        }
        Self { signature, arguments, unpack }
    }

    /// Returns whether a parameter such as `_id` is passed on. A name that starts with two underscores is excluded,
    /// because no lint warns about its use.
    pub(crate) fn begins_with_underscore(&self) -> bool {
        let mut names = self.arguments.iter().map(ToString::to_string);
        names.any(|name| name.starts_with('_') && !name.starts_with("__"))
    }
}

/// Returns the name of the parameter, and the statement that destructures its pattern, if needed. If the pattern does
/// not name the whole parameter, a name is generated.
fn whole(parameter: &mut PatType, position: usize) -> (Ident, Option<TokenStream>) {
    if let Pat::Ident(pattern) = &*parameter.pat
        && pattern.by_ref.is_none()
        && pattern.subpat.is_none()
    {
        return (pattern.ident.clone(), None);
    }
    // The key may use the name of the whole parameter, so that name is kept.
    let name = match &*parameter.pat {
        Pat::Ident(pattern) => pattern.ident.clone(),
        _ => format_ident!("__lock_argument_{position}", span = Span::mixed_site()),
    };
    let pattern = std::mem::replace(&mut *parameter.pat, parse_quote!(#name));
    // `_` binds nothing, so there is nothing to destructure.
    let bound = !matches!(pattern, Pat::Wild(_));
    let lints: Vec<&Attribute> = parameter.attrs.iter().collect();
    let unpack = bound.then(|| quote!(#(#lints)* let #pattern = #name;));
    (name, unpack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_not_its_own_fallback() {
        for (path, signature, itself) in [
            ("ship", "fn ship(id: u64)", true),
            ("Self::ship", "fn ship(&self)", true),
            ("ship", "fn ship(&self)", false),
            ("self::ship", "fn ship(&self)", false),
            ("later", "fn ship(id: u64)", false),
            ("Self::later", "fn ship(&self)", false),
            ("other::Shop::ship", "fn ship(&self)", false),
            ("<Self as Other>::ship", "fn ship(&self)", false),
        ] {
            let path: ExprPath = syn::parse_str(path).expect(path);
            let signature: Signature = syn::parse_str(signature).expect(signature);
            assert_eq!(is_itself(&path, &signature), itself, "{}", path.to_token_stream());
        }
    }

    #[test]
    fn every_parameter_is_passed_on_in_its_place_and_whole() {
        for (signature, changed, arguments, unpack) in [
            ("fn f()", "fn f ()", "", ""),
            ("fn f(&mut self, mut id: u64)", "fn f (& mut self , mut id : u64)", "self,id", ""),
            (
                "fn f(self: Arc<Self>, (a, mut b): (A, B), _: C, _d: D)",
                "fn f (self : Arc < Self > , __lock_argument_1 : (A , B) , __lock_argument_2 : C , _d : D)",
                "self,__lock_argument_1,__lock_argument_2,_d",
                "let (a , mut b) = __lock_argument_1 ;",
            ),
            (
                "fn f(ref a: A, all @ B(b): B)",
                "fn f (a : A , all : B)",
                "a,all",
                "let ref a = a ; let all @ B (b) = all ;",
            ),
        ] {
            let handover = Handover::new(&syn::parse_str(signature).expect(signature));
            assert_eq!(handover.signature.to_token_stream().to_string(), changed);
            let passed: Vec<_> = handover.arguments.iter().map(ToString::to_string).collect();
            assert_eq!(passed.join(","), arguments, "{signature}");
            assert_eq!(handover.unpack.to_string(), unpack, "{signature}");
        }
    }
}
