//! Reads the options `key` and `keys`, which name what is locked.

use syn::Expr;
use syn::spanned::Spanned as _;

use crate::args::{Arg, Args};
use crate::errors::Errors;
use crate::params::Params;
use crate::template::{self, Template};
use crate::value::{expected, string, ungrouped};

/// The templates of the keys to lock.
pub(crate) enum Keys {
    /// The option `key = ..`, for one key.
    One(Template),
    /// The option `keys = [..]`, for several keys, which are acquired together.
    All(Vec<Template>),
}

impl Keys {
    /// Reads `key` or `keys`. Exactly one of them is required. Returns `None` if there are errors.
    pub(crate) fn parse(args: &Args, params: &Params, errors: &mut Errors) -> Option<Self> {
        match (args.get("key"), args.get("keys")) {
            (None, None) => {
                missing(errors);
                None
            }
            (Some(key), Some(keys)) => {
                let message =
                    "`key` and `keys` cannot be combined: remove `key`, and add its template to `keys`";
                errors.add(key.later_of(keys).name.span(), message);
                None
            }
            (Some(key), None) => errors.take(one_key(key, params)).map(Self::One),
            (None, Some(keys)) => all_keys(keys, params, errors).map(Self::All),
        }
    }

    pub(crate) fn templates(&self) -> &[Template] {
        match self {
            Self::One(template) => std::slice::from_ref(template),
            Self::All(templates) => templates,
        }
    }
}

/// Reports that `key` is missing. If there are other errors, reports nothing, because one of them may be about a
/// misspelt `key`.
fn missing(errors: &mut Errors) {
    if errors.is_empty() {
        let message = "`key` is missing: `#[distributed_lock(key = \"order:<id>\")]`";
        errors.add(proc_macro2::Span::call_site(), message);
    }
}

fn one_key(arg: &Arg, params: &Params) -> syn::Result<Template> {
    let literal = string(&arg.value).ok_or_else(|| {
        expected(arg, "a string literal such as `\"order:<id>\"`; write placeholders into it")
    })?;
    Template::parse(literal, "key", params)
}

/// The largest value of `ManagerBuilder::max_keys`.
const MAX_KEYS: usize = 1_000;

/// Reads all templates of the list, so that an error in one template does not hide the errors in others.
fn all_keys(arg: &Arg, params: &Params, errors: &mut Errors) -> Option<Vec<Template>> {
    let form = "a list of string literals such as `[\"a:<x>\", \"b:<y>\"]`";
    let Expr::Array(list) = ungrouped(&arg.value) else {
        errors.push(expected(arg, form));
        return None;
    };
    if list.elems.is_empty() {
        errors.add(
            list.span(),
            "`keys` is empty: write at least one template, such as `keys = [\"a:<x>\", \"b:<y>\"]`",
        );
        return None;
    }
    if list.elems.len() > MAX_KEYS {
        let message = format!(
            "`keys` has {} templates, but no manager allows more than {MAX_KEYS} keys at once: lock one key that stands for \
             all of them",
            list.elems.len()
        );
        errors.add(list.span(), message);
        return None;
    }
    let mut templates: Vec<Option<Template>> = Vec::new();
    for element in &list.elems {
        let Some(literal) = string(element) else {
            errors.add(element.span(), format_args!("`keys` takes {form}"));
            templates.push(None);
            continue;
        };
        let known = |other: &Template| other.literal.value() == literal.value();
        if templates.iter().flatten().any(known) {
            let message = format!("`{}` is in `keys` already: remove one of them", literal.value());
            errors.add(literal.span(), message);
            templates.push(None);
            continue;
        }
        templates.push(errors.take(Template::parse(literal, "key", params)));
    }
    let templates: Vec<Template> = templates.into_iter().collect::<Option<_>>()?;
    refuse_clashes(&templates, params, errors).then_some(templates)
}

/// Refuses templates that can give the same key although their fixed texts differ. Otherwise the values of a call would
/// decide whether the call locks one key or two.
fn refuse_clashes(templates: &[Template], params: &Params, errors: &mut Errors) -> bool {
    for (at, later) in templates.iter().enumerate() {
        for earlier in &templates[..at] {
            let Some(key) = template::clash(&earlier.segments, &later.segments, params) else { continue };
            let message = format!(
                "`{}` and `{}` can give the same key, such as `{key}`: make their fixed texts differ in a character that no \
                 value contains, such as `:`, `/` or `#`",
                earlier.literal.value(),
                later.literal.value()
            );
            errors.add(later.literal.span(), message);
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &str) -> Result<Vec<String>, String> {
        let mut errors = Errors::default();
        let args = Args::parse(options.parse().expect(options), &mut errors);
        let signature = syn::parse_str("async fn f(x: u64, y: u64)").expect("a signature");
        let keys = Keys::parse(&args, &Params::new(&signature), &mut errors);
        match (keys, errors.into_tokens()) {
            (Some(keys), None) => Ok(keys.templates().iter().map(|each| each.literal.value()).collect()),
            (None, Some(errors)) => Err(errors.to_string()),
            (keys, errors) => panic!("{options}: keys {}, errors {errors:?}", keys.is_some()),
        }
    }

    #[test]
    fn templates_are_read_in_their_order() {
        for (options, templates) in [
            (r#"key = "a:<x>""#, &["a:<x>"][..]),
            (r#"keys = ["a:<x>"]"#, &["a:<x>"]),
            (r#"keys = ["b:<y>", "a:<x>", "a:<y>",]"#, &["b:<y>", "a:<x>", "a:<y>"]),
            (r#"keys = ["a:<x>", "a:fees", "a:<y>.log"]"#, &["a:<x>", "a:fees", "a:<y>.log"]),
        ] {
            assert_eq!(read(options).expect(options), templates, "{options}");
        }
    }

    #[test]
    fn what_is_no_list_of_templates_says_what_to_write() {
        for (options, parts) in [
            ("", &["`key` is missing"][..]),
            (r#"key = "a", keys = ["b"]"#, &["`key` and `keys` cannot be combined"]),
            ("keys = []", &["`keys` is empty"]),
            (r#"keys = "a""#, &["takes a list of string literals"]),
            (r#"keys = ["a", x]"#, &["takes a list of string literals"]),
            (r#"keys = ["a:<x>", "b", "a:<x>"]"#, &["`a:<x>` is in `keys` already"]),
            (
                r#"keys = ["a:<x>", "b", "a:7"]"#,
                &["`a:<x>` and `a:7` can give the same key, such as `a:7`: make their fixed texts differ"],
            ),
            (r#"keys = ["a:<z>", "", 5]"#, &["`z` is not an argument", "the key is empty", "takes a list"]),
        ] {
            let errors = read(options).expect_err(options);
            for part in parts {
                assert!(errors.contains(part), "{options}: {errors}");
            }
            assert_eq!(errors.matches("compile_error").count(), parts.len(), "{options}: {errors}");
        }
    }

    #[test]
    fn more_keys_than_any_manager_allows_are_refused() {
        let of = |count: usize| {
            read(&format!("keys = {:?}", (0..count).map(|i| format!("k{i}")).collect::<Vec<_>>()))
        };
        assert_eq!(of(1_000).expect("the most that is allowed").len(), 1_000);
        let errors = of(1_001).expect_err("one too many");
        assert!(
            errors.contains("`keys` has 1001 templates, but no manager allows more than 1000"),
            "{errors}"
        );
    }
}
