//! Makes the label of a request, which describes the purpose of its lock as text for people.

use std::borrow::Cow;

use http::request::Parts;
use lock_core::Result;
use lock_core::key::KeyTemplate;

use crate::key::{Registered, Value, path_params};
use crate::router::Params;

/// The text that replaces a value that the request does not have.
const MISSING: &str = "-";

/// The label of the requests of a layer.
#[derive(Clone, Debug)]
pub(crate) enum Label {
    /// The same label for all requests.
    Fixed(Cow<'static, str>),
    /// A template, with the same placeholders as the template of a key.
    Template {
        template: KeyTemplate,
        /// The values of the placeholders, in their order.
        values: Vec<Value>,
    },
}

impl Label {
    /// Parses the label of a layer. `extensions` are the types that are registered for `<ext.Name>`.
    pub(crate) fn parse(text: Cow<'static, str>, extensions: &Registered) -> Result<Self> {
        if !text.contains('<') {
            return Ok(Self::Fixed(text));
        }
        let template = KeyTemplate::parse(&text)?;
        let values = template.placeholders().map(|name| Value::parse(name, &template, extensions));
        let values: Vec<Value> = values.collect::<Result<_>>()?;
        Ok(if values.is_empty() {
            Self::Fixed(template.render_label(|_name| "").into())
        } else {
            Self::Template { template, values }
        })
    }

    /// Returns the label of this request. A missing or malformed value becomes `-`, so that no request is refused
    /// because of its label.
    pub(crate) async fn render(&self, parts: &mut Parts) -> Cow<'static, str> {
        let (template, values) = match self {
            Self::Fixed(text) => return text.clone(),
            Self::Template { template, values } => (template, values),
        };
        let needs_path = values.iter().any(Value::is_of_path);
        let params = if needs_path { path_params(parts).await.ok() } else { None };
        render(template, values, parts, params.as_ref()).into()
    }
}

fn render(template: &KeyTemplate, values: &[Value], parts: &Parts, params: Option<&Params>) -> String {
    let mut values = values.iter();
    template.render_label(|_name| {
        let value = values.next().and_then(|value| value.shown(parts, params));
        value.unwrap_or(Cow::Borrowed(MISSING))
    })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use lock_core::LockErrorKind;

    use super::*;

    fn label(text: &'static str) -> Result<Label> {
        Label::parse(Cow::Borrowed(text), &Registered::default())
    }

    #[tokio::test]
    async fn a_label_shows_what_the_request_has_and_a_dash_for_the_rest() {
        for (text, shown) in [
            ("pay", "pay"),
            ("a <<b>", "a <b>"),
            ("request <header.x-request-id>", "request 7 of 9"),
            ("<method> <uri.path>", "POST /orders/42"),
            ("user <header.x-user>, page <query.page:u64>", "user -, page 7"),
            ("<query.none>", "-"),
            ("<query.sign:u64>", "-"),
            ("route <route>, order <id:u64>", "route -, order -"),
            ("<header.x-twice>", "one"),
            ("<header.x-empty>/<header.x-binary>", "-/-"),
        ] {
            let request = Request::post("/orders/42?page=007&sign=x")
                .header("x-request-id", "7 of 9")
                .header("x-twice", "one")
                .header("x-twice", "two")
                .header("x-empty", "")
                .header("x-binary", &b"\xff"[..]);
            let (mut parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(label(text).expect(text).render(&mut parts).await, shown, "{text}");
        }
    }

    #[tokio::test]
    async fn a_long_header_is_cut_and_not_missing() {
        let long = "x".repeat(4_000);
        let (mut parts, ()) = Request::post("/").header("x", &long).body(()).expect("a request").into_parts();
        let shown = label("id <header.x>").expect("a label").render(&mut parts).await;
        assert!(shown.starts_with("id xxx") && (250..300).contains(&shown.len()), "{shown}");
    }

    #[test]
    fn placeholders_are_checked_when_the_layer_is_checked() {
        for (text, says) in [
            ("<header.a b>", "not the name of a header"),
            ("<header:x-id>", "did you mean `<header.x-id>`?"),
            ("<id:u65>", "did you mean `<id:u64>`?"),
            ("<ext.User>", "`.extension::<User>(\"User\")`"),
            ("user <id", "is not closed"),
        ] {
            let error = label(text).expect_err(text);
            assert_eq!(error.kind(), LockErrorKind::InvalidKey);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
