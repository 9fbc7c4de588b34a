//! Reads the values of a key from the parts of a request.

use std::borrow::Cow;
use std::fmt;

use http::HeaderName;
use http::request::Parts;
use lock_core::key::{KeyTemplate, Values};
use lock_core::{LockError, LockErrorKind, Result};

use super::canonical::{self, Form};
use super::extension::{Registered, Registration};
use super::no_key::NoKey;
use super::{query, uri_path};
use crate::router::{self, Params};

/// Describes the value of a placeholder: the part of the request that contains it, and its form.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    origin: Origin,
    form: Form,
}

#[derive(Clone, Debug)]
enum Origin {
    Path(Box<str>),
    Header(HeaderName),
    Query(Box<str>),
    Method,
    Route,
    Uri,
    Extension(Registration),
}

/// The longest header that can be a part of a key, in bytes. The limit allows identifiers, and refuses most access
/// tokens, which should not become part of a key by mistake.
const LONGEST_HEADER: usize = 255;

/// Returns the characters that the values of the placeholder `name` consist of.
pub(super) fn values_of(name: &str) -> Values {
    let (_, form) = split(name);
    form.and_then(Form::parse).map_or(Values::Text, Form::values)
}

/// Splits a placeholder such as `id:u64` at its last colon.
fn split(name: &str) -> (&str, Option<&str>) {
    name.rsplit_once(':').map_or((name, None), |(name, word)| (name, Some(word)))
}

impl Value {
    /// Parses the placeholder `name` of `template`.
    pub(crate) fn parse(name: &str, template: &KeyTemplate, extensions: &Registered) -> Result<Self> {
        let invalid = |detail: String| {
            let detail = format!("placeholder `<{name}>` in the template `{template}`: {detail}");
            LockError::new(LockErrorKind::InvalidKey, detail)
        };
        let (place, word) = split(name);
        let form = match word.map(|word| Form::parse(word).ok_or(word)) {
            None => None,
            Some(Ok(form)) => Some(form),
            Some(Err(word)) => return Err(invalid(unknown(place, word))),
        };
        let origin = Origin::parse(place, extensions).map_err(invalid)?;
        if cfg!(not(feature = "axum")) && matches!(origin, Origin::Path(_) | Origin::Route) {
            return Err(invalid(
                "this build has no router: add the feature `axum` to lock-axum in Cargo.toml, or use values of the \
                 request such as `<header.x-tenant>` or `<uri.path>`"
                    .to_owned(),
            ));
        }
        match (&origin, form) {
            (Origin::Method | Origin::Route, Some(_)) => {
                Err(invalid(format!("`{place}` has no type: write `<{place}>`")))
            }
            (Origin::Uri, Some(form)) if form != Form::Text => Err(invalid(
                "`uri.path` has no type but `text`: write `<uri.path>` or `<uri.path:text>`".to_owned(),
            )),
            (Origin::Path(_) | Origin::Query(_) | Origin::Uri, None) => {
                Ok(Self { origin, form: Form::Plain })
            }
            (_, form) => Ok(Self { origin, form: form.unwrap_or(Form::Text) }),
        }
    }

    /// Returns whether the value is a path parameter.
    pub(crate) fn is_of_path(&self) -> bool {
        matches!(self.origin, Origin::Path(_))
    }

    /// Returns whether the value exists only if the request has a route.
    pub(super) fn is_of_route(&self) -> bool {
        matches!(self.origin, Origin::Path(_) | Origin::Route)
    }

    /// Returns the value in this request, in its canonical spelling. The value is not yet encoded for the key.
    pub(super) fn canonical_in<'a>(
        &self,
        parts: &'a Parts,
        params: Option<&'a Params>,
    ) -> Result<Cow<'a, str>, NoKey> {
        let value = self.raw(parts, params)?;
        let canonical = match (&self.origin, self.form) {
            (Origin::Uri, Form::Plain) => canonical::of_path(value),
            _ => self.form.canonical(value),
        };
        canonical.map_err(|why| match &self.origin {
            // The program added the extension, so the client cannot correct it.
            Origin::Extension(_) => NoKey::Program(format!("the {} {why}", self.origin)),
            _ => NoKey::Client(format!("The {} {why}.", self.origin).into()),
        })
    }

    /// Returns the value as text for people, or `None` if this request has no such value. `params` are present if the
    /// request has path parameters.
    pub(crate) fn shown<'a>(&self, parts: &'a Parts, params: Option<&'a Params>) -> Option<Cow<'a, str>> {
        match &self.origin {
            Origin::Path(_) if params.is_none() => None,
            // Only a key refuses long and repeated headers, because a key must name one thing. A label shows them.
            Origin::Header(name) => {
                let text = parts.headers.get(name)?.to_str().ok()?;
                (!text.is_empty()).then_some(Cow::Borrowed(text))
            }
            _ => self.canonical_in(parts, params).ok(),
        }
    }

    /// Returns the value before it is converted to its canonical spelling.
    pub(super) fn raw<'a>(
        &self,
        parts: &'a Parts,
        params: Option<&'a Params>,
    ) -> Result<Cow<'a, str>, NoKey> {
        match &self.origin {
            Origin::Path(name) => {
                let params = params.expect("BUG: read before, because the template has a path parameter");
                path_param(name, parts, params).map(Cow::Borrowed)
            }
            Origin::Header(name) => header(name, parts).map(Cow::Borrowed),
            Origin::Query(name) => query::parameter(name, parts.uri.query().unwrap_or_default()),
            Origin::Method => Ok(parts.method.as_str().into()),
            Origin::Uri => Ok(uri_path::canonical(router::uri(parts).path())),
            Origin::Extension(extension) => {
                extension.value(&parts.extensions).map(Cow::Owned).map_err(NoKey::Program)
            }
            Origin::Route => router::route(parts).map(Cow::Borrowed).ok_or(NoKey::NoRoute),
        }
    }
}

/// Returns an error for the unknown `word` in `<place:word>`. The error says what to write instead.
fn unknown(place: &str, word: &str) -> String {
    if ["header", "query", "uri", "ext"].contains(&place) {
        return format!("`{word}` is not a type; did you mean `<{place}.{word}>`?");
    }
    let lower = word.to_ascii_lowercase();
    let near = Form::words().map(|known| (strsim::jaro_winkler(&lower, known), known));
    let near = near.filter(|(likeness, _)| *likeness > 0.7).max_by(|one, other| one.0.total_cmp(&other.0));
    match near {
        Some((_, known)) => format!("`{word}` is not a type; did you mean `<{place}:{known}>`?"),
        None => {
            let words: Vec<_> = Form::words().map(|word| format!("`{word}`")).collect();
            format!("`{word}` is not a type: expected one of {}", words.join(", "))
        }
    }
}

impl Origin {
    fn parse(name: &str, extensions: &Registered) -> Result<Self, String> {
        if let Some(header) = name.strip_prefix("header.") {
            return match HeaderName::try_from(header) {
                Ok(header) => Ok(Self::Header(header)),
                Err(_) => Err(format!("`{header}` is not the name of a header")),
            };
        }
        if let Some(extension) = name.strip_prefix("ext.") {
            return extensions.get(extension).map(Self::Extension);
        }
        match name.strip_prefix("query.") {
            Some("") => return Err("a name is expected after the dot, such as `<query.page>`".to_owned()),
            Some(name) => return Ok(Self::Query(name.into())),
            None => {}
        }
        match name {
            "" => Err("a name is expected before the colon, such as `<id:u64>`".to_owned()),
            "method" => Ok(Self::Method),
            "route" => Ok(Self::Route),
            "uri.path" => Ok(Self::Uri),
            _ if name.contains('.') => Err(
                "expected a path parameter, `<header.name>`, `<query.name>`, `<ext.Name>`, `<method>`, `<route>` or `<uri.path>`".to_owned(),
            ),
            _ => Ok(Self::Path(name.into())),
        }
    }
}

/// Writes the name of this part of the request, for the answer to the client.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(name) => write!(f, "path parameter `{name}`"),
            Self::Header(name) => write!(f, "header `{name}`"),
            Self::Query(name) => write!(f, "query parameter `{name}`"),
            Self::Method => f.write_str("method"),
            Self::Route => f.write_str("route"),
            Self::Uri => f.write_str("path"),
            Self::Extension(extension) => write!(f, "extension `{}`", extension.name),
        }
    }
}

fn path_param<'a>(name: &str, parts: &Parts, params: &'a Params) -> Result<&'a str, NoKey> {
    let mut found = params.iter().filter(|(param, _)| *param == name).map(|(_, value)| value);
    let route = router::route(parts);
    match (found.next(), found.next(), route) {
        (Some(value), None, _) => Ok(value),
        (Some(_), Some(_), _) => Err(NoKey::Program(format!(
            "the route {} has two parameters `{name}`: give them different names",
            route.unwrap_or("of this request")
        ))),
        (None, _, None) => Err(NoKey::NoRoute),
        (None, _, Some(route)) => Err(NoKey::Program(format!(
            "the route {route} has no parameter `{name}`; it has {}",
            names(params)
        ))),
    }
}

fn names(params: &Params) -> String {
    let names: Vec<_> = params.iter().map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn header<'a>(name: &HeaderName, parts: &'a Parts) -> Result<&'a str, NoKey> {
    let mut values = parts.headers.get_all(name).iter();
    let invalid = |what: &str| Err(NoKey::Client(format!("The header `{name}` {what}.").into()));
    let Some(value) = values.next() else { return invalid("is missing") };
    if values.next().is_some() {
        return invalid("occurs more than once");
    }
    match value.to_str() {
        Ok("") => invalid("is empty"),
        Ok(value) if value.len() > LONGEST_HEADER => invalid("is longer than 255 characters"),
        // `to_str` accepts a tab, but a key does not.
        Ok(value) if !value.contains('\t') => Ok(value),
        Ok(_) | Err(_) => invalid("has characters that are not visible ASCII"),
    }
}
