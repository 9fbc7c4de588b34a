//! Where the values of a key come from.

use std::borrow::Cow;
use std::fmt;

use axum::extract::{MatchedPath, OriginalUri, RawPathParams};
use http::HeaderName;
use http::request::Parts;
use lock_core::key::{KeyTemplate, Values};
use lock_core::{LockError, LockErrorKind, Result};

use super::canonical::{self, Form};
use super::extension::{Registered, Registration};
use super::no_key::NoKey;
use super::{place, query};

/// What one placeholder stands for.
#[derive(Clone, Debug)]
pub(super) struct Value {
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

/// The longest header that is a part of a key: long enough for every identifier, and no token by mistake.
const LONGEST_HEADER: usize = 255;

/// What the values of the placeholder `name` are made of.
pub(super) fn values_of(name: &str) -> Values {
    let (_, form) = split(name);
    form.and_then(Form::of).map_or(Values::Text, Form::values)
}

/// `id:u64` in two.
fn split(name: &str) -> (&str, Option<&str>) {
    name.rsplit_once(':').map_or((name, None), |(name, word)| (name, Some(word)))
}

impl Value {
    /// What the placeholder `name` of `template` stands for.
    pub(super) fn parse(name: &str, template: &KeyTemplate, extensions: &Registered) -> Result<Self> {
        let invalid = |detail: String| {
            let detail = format!("the template `{template}` has the placeholder `<{name}>`: {detail}");
            LockError::new(LockErrorKind::InvalidKey, detail)
        };
        let (place, word) = split(name);
        let form = match word.map(|word| Form::of(word).ok_or(word)) {
            None => None,
            Some(Ok(form)) => Some(form),
            Some(Err(word)) => return Err(invalid(unknown(place, word))),
        };
        let origin = Origin::parse(place, extensions).map_err(invalid)?;
        match (&origin, form) {
            (Origin::Method | Origin::Route, Some(_)) => {
                Err(invalid(format!("`<{place}>` takes no type: write it without")))
            }
            (Origin::Uri, Some(form)) if form != Form::Text => {
                Err(invalid("`<uri.path>` takes no type but `text`: write it without".to_owned()))
            }
            (Origin::Path(_) | Origin::Query(_) | Origin::Uri, None) => {
                Ok(Self { origin, form: Form::Plain })
            }
            (_, form) => Ok(Self { origin, form: form.unwrap_or(Form::Text) }),
        }
    }

    /// Whether it is a path parameter.
    pub(super) fn is_of_path(&self) -> bool {
        matches!(self.origin, Origin::Path(_))
    }

    /// Whether it can say that there is no route.
    pub(super) fn is_of_route(&self) -> bool {
        matches!(self.origin, Origin::Path(_) | Origin::Route)
    }

    /// Its one spelling in this request, not encoded.
    pub(super) fn of<'a>(
        &self,
        parts: &'a Parts,
        params: Option<&'a RawPathParams>,
    ) -> Result<Cow<'a, str>, NoKey> {
        let value = self.raw(parts, params)?;
        let canonical = match (&self.origin, self.form) {
            (Origin::Uri, Form::Plain) => canonical::of_path(value),
            _ => self.form.canonical(value),
        };
        canonical.map_err(|why| match &self.origin {
            // What the program has put there is not for the client to mend.
            Origin::Extension(_) => NoKey::Program(format!("the {} {why}", self.origin)),
            _ => NoKey::Client(format!("The {} {why}.", self.origin).into()),
        })
    }

    /// As the request has it.
    pub(super) fn raw<'a>(
        &self,
        parts: &'a Parts,
        params: Option<&'a RawPathParams>,
    ) -> Result<Cow<'a, str>, NoKey> {
        match &self.origin {
            Origin::Path(name) => {
                let params = params.expect("BUG: read before, because the template has a path parameter");
                path_param(name, parts, params).map(Cow::Borrowed)
            }
            Origin::Header(name) => header(name, parts).map(Cow::Borrowed),
            Origin::Query(name) => query::parameter(name, parts.uri.query().unwrap_or_default()),
            Origin::Method => Ok(parts.method.as_str().into()),
            // A router that is nested in another has cut its own part off.
            Origin::Uri => {
                let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0);
                Ok(place::canonical(uri.path()))
            }
            Origin::Extension(extension) => {
                extension.value(&parts.extensions).map(Cow::Owned).map_err(NoKey::Program)
            }
            Origin::Route => match parts.extensions.get::<MatchedPath>() {
                Some(route) => Ok(route.as_str().into()),
                None => Err(NoKey::NoRoute),
            },
        }
    }
}

/// What to write in place of the `word` behind the colon of `<place:word>`.
fn unknown(place: &str, word: &str) -> String {
    if ["header", "query", "uri", "ext"].contains(&place) {
        return format!("`{word}` is no type of a value; did you mean `<{place}.{word}>`?");
    }
    let lower = word.to_ascii_lowercase();
    let near = Form::words().map(|known| (strsim::jaro_winkler(&lower, known), known));
    let near = near.filter(|(likeness, _)| *likeness > 0.7).max_by(|one, other| one.0.total_cmp(&other.0));
    match near {
        Some((_, known)) => format!("`{word}` is no type of a value; did you mean `<{place}:{known}>`?"),
        None => {
            let words: Vec<_> = Form::words().map(|word| format!("`{word}`")).collect();
            format!("`{word}` is no type of a value: expected one of {}", words.join(", "))
        }
    }
}

impl Origin {
    fn parse(name: &str, extensions: &Registered) -> Result<Self, String> {
        if let Some(header) = name.strip_prefix("header.") {
            return match HeaderName::try_from(header) {
                Ok(header) => Ok(Self::Header(header)),
                Err(_) => Err("this is no name of a header".to_owned()),
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

/// As a client knows it.
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

fn path_param<'a>(name: &str, parts: &Parts, params: &'a RawPathParams) -> Result<&'a str, NoKey> {
    let mut found = params.iter().filter(|(param, _)| *param == name).map(|(_, value)| value);
    let route = parts.extensions.get::<MatchedPath>();
    match (found.next(), found.next(), route) {
        (Some(value), None, _) => Ok(value),
        (Some(_), Some(_), _) => Err(NoKey::Program(format!(
            "the route {} has the parameter `{name}` twice: give the two different names",
            route.map_or("of this request", MatchedPath::as_str)
        ))),
        (None, _, None) => Err(NoKey::NoRoute),
        (None, _, Some(route)) => Err(NoKey::Program(format!(
            "the route {} has no parameter `{name}`; it has {}",
            route.as_str(),
            names(params)
        ))),
    }
}

fn names(params: &RawPathParams) -> String {
    let names: Vec<_> = params.iter().map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn header<'a>(name: &HeaderName, parts: &'a Parts) -> Result<&'a str, NoKey> {
    let mut values = parts.headers.get_all(name).iter();
    let invalid = |what: &str| Err(NoKey::Client(format!("The header `{name}` {what}.").into()));
    let Some(value) = values.next() else { return invalid("is missing") };
    if values.next().is_some() {
        return invalid("is there more than once");
    }
    match value.to_str() {
        Ok("") => invalid("is empty"),
        Ok(value) if value.len() > LONGEST_HEADER => invalid("is longer than 255 characters"),
        // `to_str` lets a tab through.
        Ok(value) if !value.contains('\t') => Ok(value),
        Ok(_) | Err(_) => invalid("has characters that are not visible ASCII"),
    }
}
