//! A key from a template and the values of the request.

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
        no_braces(template.as_str())?;
        let values = template
            .placeholders()
            .map(|name| Value::parse(name, &template, extensions))
            .collect::<Result<_>>()?;
        Ok(Self { template, values })
    }

    pub(crate) fn template(&self) -> &str {
        self.template.as_str()
    }

    /// Returns a key that both this template and `other` can give, although their fixed texts differ.
    pub(crate) fn clash(&self, other: &Self) -> Option<String> {
        self.template.clash_with_values(&other.template, values_of)
    }

    /// Returns whether it has a path parameter.
    pub(crate) fn needs_path(&self) -> bool {
        self.values.iter().any(Value::is_of_path)
    }

    /// Checks that the request has a route, as far as this template needs one. This comes before the check of what the
    /// client sent: a 404 must not become a 400.
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

/// Refuses `order:{id}`, which is written like the path of a route: it would be one key for all orders.
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
                "`{{{name}}}` in the template `{template}` is plain text, the same for every request: write the \
                 placeholder as `<{name}>`"
            );
            Err(LockError::new(LockErrorKind::InvalidKey, detail))
        }
    }
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
        ] {
            assert!(KeySource::parse(template, &Registered::default()).is_ok(), "{template}");
        }
        for (template, says) in [
            ("", "is empty"),
            ("order:<id", "is not closed"),
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
