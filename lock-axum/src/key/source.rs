//! Renders a key from a template and the values of the request.

use http::request::Parts;
use lock_core::key::{Key, KeyTemplate};
use lock_core::{LockError, LockErrorKind, Result};

use super::extension::Registered;
use super::no_key::NoKey;
use super::value::{Value, values_of};
use crate::router::{self, NoParams, Params};

/// A template with valid placeholders.
#[derive(Clone, Debug)]
pub(crate) struct KeySource {
    template: KeyTemplate,
    /// The values of the placeholders, in their order.
    values: Vec<Value>,
}

impl KeySource {
    pub(crate) fn parse(template: &str, extensions: &Registered) -> Result<Self> {
        let template = KeyTemplate::parse(template)?;
        refuse_other_placeholders(template.as_str())?;
        let values = template
            .placeholders()
            .map(|name| Value::parse(name, &template, extensions))
            .collect::<Result<_>>()?;
        Ok(Self { template, values })
    }

    pub(crate) fn template(&self) -> &str {
        self.template.as_str()
    }

    /// Returns a key that both this template and `other` can produce, although their fixed texts differ.
    pub(crate) fn clash(&self, other: &Self) -> Option<String> {
        self.template.clash_with_values(&other.template, values_of)
    }

    /// Returns whether the template has a path parameter.
    pub(crate) fn needs_path(&self) -> bool {
        self.values.iter().any(Value::is_of_path)
    }

    /// Checks that the request has a route, if this template needs a route. This check comes before the checks of the
    /// client's values, so that a 404 does not become a 400.
    pub(crate) fn check_route(&self, parts: &Parts, params: Option<&Params>) -> Result<(), NoKey> {
        for value in self.values.iter().filter(|value| value.is_of_route()) {
            value.raw(parts, params)?;
        }
        Ok(())
    }

    /// Returns the key of this request. `params` are present if the template [needs them](Self::needs_path).
    pub(crate) fn render(&self, parts: &Parts, params: Option<&Params>) -> Result<Key, NoKey> {
        let mut values = self.values.iter();
        let mut failure = None;
        let key = self.template.render(|_name| {
            let value = values.next().expect("BUG: one value was parsed for each placeholder");
            value.canonical_in(parts, params).map_err(|why| {
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

/// Refuses templates in the syntax of routes: `order:{id}`, `order::id` and `order/:id`. As a template of this crate,
/// each of these would be one key for all orders.
fn refuse_other_placeholders(template: &str) -> Result<()> {
    let in_braces = template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'*'))
    };
    let braced = in_braces.into_iter().find(is_name).map(|name| (format!("{{{name}}}"), name));
    let other = braced.or_else(|| after_colon(template).map(|name| (format!(":{name}"), name)));
    let Some((found, name)) = other else { return Ok(()) };
    let detail = format!(
        "`{found}` in the template `{template}` is plain text, the same for every request: write the placeholder as \
         `<{name}>`"
    );
    Err(LockError::new(LockErrorKind::InvalidKey, detail))
}

/// Returns the name `id` if the template, or one of its parts, starts with `:id`, which is the syntax of other routers.
/// In `order:id` the colon only separates two parts.
fn after_colon(template: &str) -> Option<&str> {
    let begins =
        |(at, _): &(usize, &str)| matches!(template[..*at].chars().next_back(), None | Some(':' | '/'));
    let name = |(at, _): (usize, &'_ str)| {
        let rest = &template[at + 1..];
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(rest.len());
        &rest[..end]
    };
    let is_name = |name: &&str| name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_');
    template.match_indices(':').filter(begins).map(name).find(is_name)
}

pub(crate) async fn path_params(parts: &mut Parts) -> Result<Params, NoKey> {
    router::params(parts).await.map_err(|why| match why {
        NoParams::NotUtf8 => NoKey::Client("A parameter of the path is not UTF-8.".into()),
        NoParams::NoRouter => NoKey::Program(
            "no axum router has matched the request yet: mount the layer on a route or a `Router`, not around the \
             `Router`, or use a template without path parameters"
                .to_owned(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_checked_when_the_layer_is_built() {
        for template in [
            "order:<id>",
            "<method>:<route>",
            "<header.x-tenant>:<id>",
            "<query.q>",
            "sweep",
            "<a>:<header.b>:<query.c.d>",
            "<id:u64>:<other:uuid>:<header.x-tenant:lower>:<query.page:i32>:<zip:text>",
            "order:id:<id>",
            "order::<id>",
            "http://<id>:8080",
        ] {
            assert!(KeySource::parse(template, &Registered::default()).is_ok(), "{template}");
        }
        for (template, says) in [
            ("", "is empty"),
            ("order:<id", "is not closed"),
            ("order:{id}", "`{id}` in the template `order:{id}` is plain text"),
            ("order::id", "write the placeholder as `<id>`"),
            ("/orders/:order_id", "`:order_id` in the template"),
            (":id", "write the placeholder as `<id>`"),
            ("<header.>", "not the name of a header"),
            ("<header.a b>", "not the name of a header"),
            ("<query.>", "a name is expected after the dot"),
            ("<cookie.a>", "expected a path parameter, `<header.name>`"),
            ("<ext.Tenant>", "`.extension::<Tenant>(\"Tenant\")`"),
            ("<ext:Tenant>", "did you mean `<ext.Tenant>`?"),
            ("<header:x-tenant>", "did you mean `<header.x-tenant>`?"),
            ("<query:page>", "did you mean `<query.page>`?"),
            ("<id:u65>", "did you mean `<id:u64>`?"),
            ("<id:UUID>", "did you mean `<id:uuid>`?"),
            ("<id:uid>", "did you mean `<id:uuid>`?"),
            ("<id:string>", "expected one of `u8`"),
            ("<id:>", "expected one of `u8`"),
            ("<:u64>", "a name is expected before the colon"),
            ("<method:lower>", "`method` has no type: write `<method>`"),
            ("<header.x:y>", "expected one of `u8`"),
        ] {
            let error = KeySource::parse(template, &Registered::default()).unwrap_err();
            assert_eq!(error.kind(), LockErrorKind::InvalidKey);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
