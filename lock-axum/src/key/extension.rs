//! Reads values that an outer layer has added to the extensions of the request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::Extensions;

type Read = Arc<dyn Fn(&Extensions) -> Option<String> + Send + Sync>;

/// The types that are registered for `<ext.Name>`, by name.
#[derive(Clone, Default)]
pub(crate) struct Registered(BTreeMap<Box<str>, Read>);

impl Registered {
    pub(crate) fn add<T: fmt::Display + Send + Sync + 'static>(&mut self, name: &str) {
        let read = |extensions: &Extensions| extensions.get::<T>().map(ToString::to_string);
        self.0.insert(name.into(), Arc::new(read));
    }

    /// Returns the type that is registered under this name, or an error that says how to register a type.
    pub(super) fn get(&self, name: &str) -> Result<Registration, String> {
        if let Some(read) = self.0.get(name) {
            return Ok(Registration { name: name.into(), read: Arc::clone(read) });
        }
        let known: Vec<_> = self.0.keys().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(format!(
            "no extension `{name}` is registered (registered: {known}): register its type before the key, with \
             `.extension::<{}>(\"{name}\")`, or use `key_of`",
            if name.is_empty() { "Tenant" } else { name }
        ))
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A registered type.
#[derive(Clone)]
pub(super) struct Registration {
    pub(super) name: Box<str>,
    read: Read,
}

impl Registration {
    /// Returns the value in this request. If there is no value, the error describes the mistake in the program.
    pub(super) fn value(&self, extensions: &Extensions) -> Result<String, String> {
        let name = &self.name;
        match (self.read)(extensions) {
            Some(value) if value.is_empty() => Err(format!("the extension `{name}` of the request is empty")),
            Some(value) => Ok(value),
            None => Err(format!(
                "the request has no extension `{name}`: mount the layer that adds it outside the `LockLayer`"
            )),
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.name).finish()
    }
}
