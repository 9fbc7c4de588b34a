//! Makes the keys of a layer: one key, or several keys for one request.

use http::request::Parts;
use lock_core::key::Key;
use lock_core::{LockError, LockErrorKind, Result};

use super::choice::Chooser;
use super::extension::Registered;
use super::extracted::Extracted;
use super::no_key::NoKey;
use super::source::{KeySource, path_params};

/// The source of the keys of a layer.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// The template of [`LockLayer::key`](crate::LockLayer::key).
    One(KeySource),
    /// The templates of [`LockLayer::keys`](crate::LockLayer::keys).
    All {
        sources: Box<[KeySource]>,
        /// The templates, separated by commas, for clients and the log.
        templates: Box<str>,
    },
    /// The function of [`LockLayer::key_fn`](crate::LockLayer::key_fn) or
    /// [`LockLayer::key_with`](crate::LockLayer::key_with).
    Chosen(Chooser),
    /// The extractor of [`LockLayer::key_of`](crate::LockLayer::key_of).
    Extracted(Extracted),
}

impl Keys {
    pub(crate) fn from_template(template: &str, extensions: &Registered) -> Result<Self> {
        KeySource::parse(template, extensions).map(Self::One)
    }

    pub(crate) fn from_templates<T: AsRef<str>>(
        templates: impl IntoIterator<Item = T>,
        extensions: &Registered,
    ) -> Result<Self> {
        let mut sources: Vec<KeySource> = Vec::new();
        for template in templates {
            let source = KeySource::parse(template.as_ref(), extensions)?;
            if sources.iter().any(|other| other.template() == source.template()) {
                let detail =
                    format!("`keys` contains the template `{}` twice: remove one of them", source.template());
                return Err(LockError::new(LockErrorKind::InvalidKey, detail));
            }
            if let Some((other, key)) = sources.iter().find_map(|other| Some((other, other.clash(&source)?)))
            {
                return Err(clashing(other, &source, &key));
            }
            sources.push(source);
        }
        if sources.is_empty() {
            return Err(LockError::new(
                LockErrorKind::InvalidKey,
                "`keys` is empty: give it at least one template",
            ));
        }
        let templates = sources.iter().map(KeySource::template).collect::<Vec<_>>().join(", ").into();
        Ok(Self::All { sources: sources.into(), templates })
    }

    /// Returns the template of the key or keys, for clients and the log.
    pub(crate) fn template(&self) -> &str {
        match self {
            Self::One(source) => source.template(),
            Self::All { templates, .. } => templates,
            Self::Chosen(chooser) => chooser.name(),
            Self::Extracted(extracted) => extracted.template(),
        }
    }

    /// Returns the largest number of keys that one request locks.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::One(_) | Self::Chosen(_) | Self::Extracted(_) => 1,
            Self::All { sources, .. } => sources.len(),
        }
    }

    fn sources(&self) -> &[KeySource] {
        match self {
            Self::One(source) => std::slice::from_ref(source),
            Self::All { sources, .. } => sources,
            Self::Chosen(_) | Self::Extracted(_) => &[],
        }
    }

    /// Returns the keys that the request with this head locks.
    pub(crate) async fn render(&self, parts: &mut Parts) -> Result<Vec<Key>, NoKey> {
        let needs_path = match self {
            Self::Extracted(extracted) => return Ok(vec![extracted.key(parts).await?]),
            Self::Chosen(chooser) => chooser.needs_path(),
            Self::One(_) | Self::All { .. } => self.sources().iter().any(KeySource::needs_path),
        };
        let params = if needs_path { Some(path_params(parts).await?) } else { None };
        let (parts, params) = (&*parts, params.as_ref());
        for source in self.sources() {
            source.check_route(parts, params)?;
        }
        match self {
            Self::One(_) | Self::All { .. } => {
                self.sources().iter().map(|source| source.render(parts, params)).collect()
            }
            Self::Chosen(chooser) => Ok(vec![chooser.key(parts, params)?]),
            Self::Extracted(_) => unreachable!("BUG: rendered above"),
        }
    }
}

fn clashing(one: &KeySource, other: &KeySource, key: &str) -> LockError {
    let (one, other) = (one.template(), other.template());
    let detail = format!(
        "`keys` contains the templates `{one}` and `{other}`, which can both give the key `{key}`: make their fixed texts \
         differ in a character that no value contains, such as `:`"
    );
    LockError::new(LockErrorKind::InvalidKey, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_templates_are_checked_when_the_layer_is_built() {
        for templates in
            [&["a:<x>"][..], &["b:<y>", "a:<x>"], &["a:<x>", "a:<y>", "a:<header.z>"], &["a:<x:u64>", "a:b"]]
        {
            let keys = Keys::from_templates(templates, &Registered::default()).expect("they are templates");
            assert_eq!(keys.template(), templates.join(", "));
        }
        for (templates, says) in [
            (&[][..], "`keys` is empty"),
            (&["a:<x>", "b", "a:<x>"], "contains the template `a:<x>` twice"),
            (&["a:<x>", "b:<y"], "is not closed"),
            (&["a:<x>", ""], "is empty"),
            (&["a:<x>", "b", "a:b"], "`a:<x>` and `a:b`, which can both give the key `a:b`"),
            (&["a:<x>", "a:<x>.b"], "which can both give the key"),
            (&["a:<x>", "b:{x}"], "write the placeholder as `<x>`"),
            (&["a:<x>", "<cookie.a>"], "expected a path parameter"),
        ] {
            let error = Keys::from_templates(templates, &Registered::default()).unwrap_err();
            assert_eq!(error.kind(), LockErrorKind::InvalidKey, "{templates:?}");
            assert!(error.to_string().contains(says), "{templates:?}: {error}");
        }
    }
}
