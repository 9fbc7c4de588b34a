//! Parses tokens into options. A value may be any expression. This file does not interpret the value, and keeps its
//! span.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, LitStr, Token, token};

use crate::errors::Errors;
use crate::words::option::{self, Form};
use crate::words::suggest::{did_you_mean, list};
use crate::words::synonyms;

/// The names that a list of `name = value` may contain, each with an example for error texts.
pub(crate) struct Words {
    /// The noun for one name, such as "option".
    pub(crate) one: &'static str,
    pub(crate) forms: &'static [Form],
    /// A function that returns the hint for a word of another library.
    pub(crate) synonyms: fn(&str) -> Option<&'static str>,
}

static OPTIONS: Words = Words { one: "option", synonyms: synonyms::option, forms: option::OPTIONS };

/// One option of the list, before its value is interpreted.
pub(crate) struct Arg {
    /// The name of the option. An error about two options that contradict each other points at this name.
    pub(crate) name: Ident,
    /// The expression after the `=`. For an option with parts, such as `backoff(..)`, the unparsed tokens between the
    /// parentheses.
    pub(crate) value: Expr,
    /// The position in the list. If two options contradict each other, the error points at the later option.
    pub(crate) position: usize,
}

impl Arg {
    /// Returns the option that is later in the list.
    pub(crate) fn later_of<'a>(&'a self, other: &'a Self) -> &'a Self {
        if self.position > other.position { self } else { other }
    }
}

/// The options of one attribute, or the parts of one option, in the order in which they were written.
pub(crate) struct Args {
    words: &'static Words,
    given: Vec<Arg>,
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        Self::read(tokens, &OPTIONS, errors)
    }

    /// Reads a list of `name = value`. An element that cannot be read, or that repeats a name, is reported as an error.
    /// Reading continues with the next element.
    pub(crate) fn read(tokens: TokenStream, words: &'static Words, errors: &mut Errors) -> Self {
        let mut args = Self { words, given: Vec::new() };
        let read = |input: ParseStream<'_>| {
            for position in 0.. {
                if input.is_empty() {
                    break;
                }
                match words.parse_one(input, position) {
                    Ok(arg) => {
                        if !input.is_empty() && !input.peek(Token![,]) {
                            errors.add(input.span(), "expected `,`");
                        }
                        args.put(arg, errors);
                    }
                    Err(error) => errors.push(error),
                }
                skip_to_next(input);
            }
            Ok(())
        };
        let read = read.parse2(tokens);
        errors.take(read);
        args
    }

    fn put(&mut self, arg: Arg, errors: &mut Errors) {
        if self.given.iter().any(|given| given.name == arg.name) {
            errors.add(arg.name.span(), format_args!("`{}` is given twice", arg.name));
        } else {
            self.given.push(arg);
        }
    }

    /// Returns the option `name`, if it was given.
    pub(crate) fn get(&self, name: &str) -> Option<&Arg> {
        debug_assert!(self.words.words().any(|word| word == name), "BUG: `{name}` is not in the table");
        self.given.iter().find(|arg| arg.name == name)
    }
}

impl Words {
    /// Reads `name = expression`, or `name(..)` if the example of the option in `forms` has parentheses.
    fn parse_one(&self, input: ParseStream<'_>, position: usize) -> syn::Result<Arg> {
        let Self { one, forms, .. } = self;
        if let Ok(text) = input.fork().parse::<LitStr>() {
            let (first, _) = forms[0];
            let message = format!("name the {one}: `{first} = {:?}`", text.value());
            return Err(syn::Error::new(text.span(), message));
        }
        // `parse_any` accepts keywords, such as the option `crate`.
        let name = input.call(Ident::parse_any).map_err(|error| {
            syn::Error::new(error.span(), format_args!("expected {} {one}: {}", article(one), self.known()))
        })?;
        let form = self.form_of(&name)?;
        if form[name.to_string().len()..].starts_with('(') {
            if !input.peek(token::Paren) {
                let message = format!("`{name}` takes its parts in parentheses: `{form}`");
                return Err(syn::Error::new(name.span(), message));
            }
            let parts: Group = input.parse()?;
            return Ok(Arg { name, value: Expr::Verbatim(parts.stream()), position });
        }
        let expected = |span| syn::Error::new(span, format_args!("expected a value: `{form}`"));
        if !input.peek(Token![=]) {
            return Err(expected(name.span()));
        }
        let equals: Token![=] = input.parse()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(expected(equals.span));
        }
        Ok(Arg { name, value: input.parse()?, position })
    }

    /// Returns the example for the option `name`, or an error for an unknown name.
    fn form_of(&self, name: &Ident) -> syn::Result<&'static str> {
        let Self { one, forms, .. } = self;
        let word = name.to_string();
        if let Some((_, form)) = forms.iter().find(|(option, _)| *option == word) {
            return Ok(form);
        }
        let hint = (self.synonyms)(&word);
        let near = hint.map_or_else(|| did_you_mean(&word, self.words()), str::to_owned);
        let message = format!("unknown {one} `{word}`{near}\n{one}s: {}", self.known());
        Err(syn::Error::new(name.span(), message))
    }

    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.forms.iter().map(|(word, _)| *word)
    }

    fn known(&self) -> String {
        list(self.words())
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Skips to the token after the next comma, so that a broken option does not hide the errors of later options.
fn skip_to_next(input: ParseStream<'_>) {
    while !input.is_empty() {
        if input.parse::<Option<Token![,]>>().is_ok_and(|comma| comma.is_some()) {
            return;
        }
        let _: syn::Result<TokenTree> = input.parse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synonym_is_not_an_option() {
        for option in OPTIONS.words() {
            assert_eq!(synonyms::option(option), None, "{option}");
        }
    }

    #[test]
    fn the_forms_of_the_table_are_read_without_error() {
        for (option, form) in OPTIONS.forms {
            let mut errors = Errors::default();
            let args = Args::parse(form.parse().unwrap(), &mut errors);
            assert!(errors.into_tokens().is_none(), "{form}");
            assert!(args.get(option).is_some(), "{form}");
        }
    }
}
