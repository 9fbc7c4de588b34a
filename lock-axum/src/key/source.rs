//! One key of a request: a template and where its values come from.

use std::borrow::Cow;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, OriginalUri, RawPathParams};
use http::HeaderName;
use http::request::Parts;
use lock_core::key::{Key, KeyTemplate};
use lock_core::{LockError, LockErrorKind, Result};

/// A template whose placeholders are known to mean something.
#[derive(Clone, Debug)]
pub(crate) struct KeySource {
    template: KeyTemplate,
    /// In the order of the template.
    values: Vec<Value>,
}

/// Where the value of one placeholder comes from.
#[derive(Clone, Debug)]
enum Value {
    Path(Box<str>),
    Header(HeaderName),
    Query(Box<str>),
    Method,
    Route,
    Uri,
}

/// The longest header that is a part of a key: long enough for every identifier, and no token by mistake.
const LONGEST_HEADER: usize = 255;

/// Why a request has no key.
#[derive(Debug)]
pub(crate) enum NoKey {
    /// The program says that this request needs none.
    Skip,
    /// The router found no route, so there is nothing to lock.
    NoRoute,
    /// The client's fault; the text names the part, never its value.
    Client(Cow<'static, str>),
    /// The program's fault; the text is for its log.
    Program(String),
}

impl KeySource {
    pub(crate) fn parse(template: &str) -> Result<Self> {
        let template = KeyTemplate::parse(template)?;
        no_braces(template.as_str())?;
        let values =
            template.placeholders().map(|name| Value::parse(name, &template)).collect::<Result<_>>()?;
        Ok(Self { template, values })
    }

    pub(crate) fn template(&self) -> &str {
        self.template.as_str()
    }

    /// Whether it has a path parameter.
    pub(crate) fn needs_path(&self) -> bool {
        self.values.iter().any(|value| matches!(value, Value::Path(_)))
    }

    /// Whether there is a route, as far as this template can tell. That goes before what the client sent: a 404 must not
    /// become a 400.
    pub(crate) fn check_route(&self, parts: &Parts, params: Option<&RawPathParams>) -> Result<(), NoKey> {
        for value in self.values.iter().filter(|value| matches!(value, Value::Path(_) | Value::Route)) {
            value.of(parts, params)?;
        }
        Ok(())
    }

    /// The key of this request; `params` are there when it [needs them](Self::needs_path).
    pub(crate) fn render(&self, parts: &Parts, params: Option<&RawPathParams>) -> Result<Key, NoKey> {
        let mut values = self.values.iter();
        let mut failure = None;
        let key = self.template.render(|_name| {
            let value = values.next().expect("BUG: one value was parsed for each placeholder");
            value.of(parts, params).map_err(|why| {
                failure = Some(why);
                LockError::new(LockErrorKind::InvalidKey, "")
            })
        });
        match failure {
            Some(why) => Err(why),
            None => key.map_err(|_| NoKey::Client("The key of the lock would be empty.".into())),
        }
    }
}

/// Refuses `order:{id}`: written as in the path of the route, it would be one key for all orders.
fn no_braces(template: &str) -> Result<()> {
    let in_braces = template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'*'))
    };
    match in_braces.into_iter().find(is_name) {
        None => Ok(()),
        Some(name) => {
            let detail = format!(
                "`{{{name}}}` in the template `{template}` is plain text, the same for every request: placeholders are \
                 written `<{name}>`"
            );
            Err(LockError::new(LockErrorKind::InvalidKey, detail))
        }
    }
}

pub(crate) async fn path_params(parts: &mut Parts) -> Result<RawPathParams, NoKey> {
    RawPathParams::from_request_parts(parts, &()).await.map_err(|rejection| match rejection {
        RawPathParamsRejection::InvalidUtf8InPathParam(_) => {
            NoKey::Client("A parameter of the path is not UTF-8.".into())
        }
        _ => NoKey::Program(
            "no axum router has matched the request yet: mount the layer on a route or a `Router`, not around it, or \
             use a template without path parameters"
                .to_owned(),
        ),
    })
}

impl Value {
    fn parse(name: &str, template: &KeyTemplate) -> Result<Self> {
        let invalid = |detail: &str| {
            let detail = format!("the template `{template}` has the placeholder `<{name}>`: {detail}");
            Err(LockError::new(LockErrorKind::InvalidKey, detail))
        };
        if let Some(header) = name.strip_prefix("header.") {
            return match HeaderName::try_from(header) {
                Ok(header) => Ok(Self::Header(header)),
                Err(_) => invalid("this is no name of a header"),
            };
        }
        match name.strip_prefix("query.") {
            Some("") => return invalid("a name is expected after the dot, such as `<query.page>`"),
            Some(name) => return Ok(Self::Query(name.into())),
            None => {}
        }
        match name {
            "method" => Ok(Self::Method),
            "route" => Ok(Self::Route),
            "uri.path" => Ok(Self::Uri),
            _ if name.contains('.') => invalid(
                "expected a path parameter, `<header.name>`, `<query.name>`, `<method>`, `<route>` or `<uri.path>`",
            ),
            _ => Ok(Self::Path(name.into())),
        }
    }

    /// The value in this request, not encoded.
    fn of<'a>(&self, parts: &'a Parts, params: Option<&'a RawPathParams>) -> Result<Cow<'a, str>, NoKey> {
        match self {
            Self::Path(name) => {
                let params = params.expect("BUG: read before, because the template has a path parameter");
                path_param(name, parts, params).map(Cow::Borrowed)
            }
            Self::Header(name) => header(name, parts).map(Cow::Borrowed),
            Self::Query(name) => query(name, parts.uri.query().unwrap_or_default()),
            Self::Method => Ok(parts.method.as_str().into()),
            // A router that is nested in another has cut its own part off.
            Self::Uri => {
                Ok(parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0).path().into())
            }
            Self::Route => match parts.extensions.get::<MatchedPath>() {
                Some(route) => Ok(route.as_str().into()),
                None => Err(NoKey::NoRoute),
            },
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

/// The one parameter `name` of a query that is encoded as a form.
fn query<'a>(name: &str, query: &'a str) -> Result<Cow<'a, str>, NoKey> {
    let invalid = |what: &str| NoKey::Client(format!("The query parameter `{name}` {what}.").into());
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(key).is_some_and(|key| key == name) && found.replace(value).is_some() {
            return Err(invalid("is there more than once"));
        }
    }
    let value = found.ok_or_else(|| invalid("is missing"))?;
    match decode(value) {
        Some(value) if value.is_empty() => Err(invalid("is empty")),
        Some(value) => Ok(value),
        None => Err(invalid("is not UTF-8")),
    }
}

/// Decodes `+` and `%41`; a `%` without two hexadecimal digits stands for itself. `None` when that is not UTF-8.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['+', '%']) {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match (byte, hex(bytes.get(at)), hex(bytes.get(at + 1))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high * 16 + low);
                at += 2;
            }
            (b'+', ..) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn hex(digit: Option<&u8>) -> Option<u8> {
    char::from(*digit?).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        for (text, decoded) in [
            ("", Some("")),
            ("a", Some("a")),
            ("a+b", Some("a b")),
            ("a%2Bb", Some("a+b")),
            ("%3a%3A", Some("::")),
            ("100%", Some("100%")),
            ("%4", Some("%4")),
            ("%zz%41", Some("%zzA")),
            ("%C3%A9", Some("é")),
            ("%ff", None),
        ] {
            assert_eq!(decode(text).as_deref(), decoded, "{text}");
        }
    }

    #[test]
    fn a_query_parameter_is_there_once() {
        for (text, value) in [
            ("q=1", Ok("1")),
            ("a=2&q=1", Ok("1")),
            ("%71=1&qq=2", Ok("1")),
            ("q=1=2", Ok("1=2")),
            ("", Err("is missing")),
            ("qq=1", Err("is missing")),
            ("q", Err("is empty")),
            ("q=", Err("is empty")),
            ("q=1&q=1", Err("is there more than once")),
            ("q=1&%71", Err("is there more than once")),
            ("q=%ff", Err("is not UTF-8")),
        ] {
            match (query("q", text), value) {
                (Ok(found), Ok(value)) => assert_eq!(found, value, "{text}"),
                (Err(NoKey::Client(detail)), Err(says)) => assert!(detail.contains(says), "{text}: {detail}"),
                (found, value) => panic!("{text}: found {found:?}, expected {value:?}"),
            }
        }
    }

    #[test]
    fn placeholders_are_checked_when_the_layer_is_built() {
        for template in [
            "order:<id>",
            "<method>:<route>",
            "<header.x-tenant>:<id>",
            "<query.q>",
            "sweep",
            "<a>:<header.b>:<query.c.d>",
        ] {
            assert!(KeySource::parse(template).is_ok(), "{template}");
        }
        for (template, says) in [
            ("", "is empty"),
            ("order:<id", "is not closed"),
            ("<header.>", "no name of a header"),
            ("<header.a b>", "no name of a header"),
            ("<query.>", "a name is expected after the dot"),
            ("<ext.Tenant>", "expected a path parameter, `<header.name>`"),
        ] {
            let error = KeySource::parse(template).unwrap_err();
            assert_eq!(error.kind(), LockErrorKind::InvalidKey);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
