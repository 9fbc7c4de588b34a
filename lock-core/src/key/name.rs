//! Defines [`Key`], the rendered name of what is locked.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{digest, hash};
use crate::error::{LockError, LockErrorKind, Result};

/// A map from keys to values. It hashes the random hash that is stored in the key, so its hasher needs no random state,
/// and all maps of a process have the same order.
pub(crate) type KeyMap<V> = HashMap<Key, V, BuildHasherDefault<DefaultHasher>>;

/// The rendered name of what is locked, such as `order:42`.
///
/// A key is never empty, and never longer than [`Key::MAX_LEN`] bytes. A clone only increments a reference count.
///
/// # Examples
///
/// ```
/// use lock_core::key::Key;
///
/// let key = Key::new("order:42")?;
/// assert_eq!(key.as_str(), "order:42");
/// assert_eq!(key.in_namespace("shop").as_str(), "shop:order:42");
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    text: Arc<str>,
    hash: u64,
}

#[cfg(feature = "serde")]
impl serde::Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The hash is omitted, because it differs from process to process.
        f.debug_tuple("Key").field(&self.text).finish()
    }
}

impl Key {
    /// The maximum length of a key in bytes, including its namespace.
    pub const MAX_LEN: usize = digest::MAX_LEN;

    /// Creates a key from `text`, without encoding.
    ///
    /// For text from outside the program, use a [`KeyTemplate`](super::KeyTemplate) or a
    /// [`KeyBuilder`](super::KeyBuilder), which encode the text. A text longer than [`Key::MAX_LEN`] bytes is replaced
    /// by a readable prefix, `#`, and the first 128 bits of its SHA-256 hash in hexadecimal. If the text of such a key
    /// is passed to this function, the result is the same key.
    ///
    /// # Errors
    ///
    /// [`LockErrorKind::InvalidKey`] if `text` is empty.
    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(LockError::new(
                LockErrorKind::InvalidKey,
                "the key is empty: name what is locked in at least one character, such as `order:42`",
            ));
        }
        Ok(Self::fit(text))
    }

    /// Creates a key from a text that was rendered from a template. Unlike [`Key::new`], this function also shortens a
    /// text that looks like a shortened text.
    pub(super) fn from_rendered(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(LockError::new(
                LockErrorKind::InvalidKey,
                "the template rendered to nothing: give its placeholders a value, or put text beside them, \
                 such as `order:<id>`",
            ));
        }
        if digest::is_mistakable(text) {
            return Ok(Self::from_short(&digest::shorten(text)));
        }
        Ok(Self::fit(text))
    }

    fn fit(text: &str) -> Self {
        if digest::is_too_long(text) {
            Self::from_short(&digest::shorten(text))
        } else {
            Self::from_short(text)
        }
    }

    fn from_short(text: &str) -> Self {
        Self { text: text.into(), hash: hash::hash_of(text) }
    }

    pub(super) fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the index of the shard, out of `shards`, to which the key belongs.
    pub(crate) fn shard(&self, shards: usize) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "the upper bits are cut off before")]
        let half = (self.hash >> 32) as u32 as usize;
        half % shards
    }

    /// Returns the hash of the key, which differs from process to process.
    pub(crate) fn hash_value(&self) -> u64 {
        self.hash
    }

    /// Does the same as [`in_namespace`](Self::in_namespace), but consumes the key.
    pub(crate) fn into_namespace(self, namespace: &str) -> Self {
        if namespace.is_empty() { self } else { self.in_namespace(namespace) }
    }

    /// Returns the key `<namespace>:<key>`, or the key itself if `namespace` is empty.
    ///
    /// A result longer than [`Key::MAX_LEN`] bytes is shortened like any other key. Different keys of one namespace
    /// stay different. Keys of different namespaces are different too, if both namespaces are valid
    /// ([`validate_namespace`](super::validate_namespace)) and not empty.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        if namespace.is_empty() {
            return self.clone();
        }
        Self::fit(&format!("{namespace}:{self}"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Writes the stored hash. A key is looked up many times, so its hash is computed only once. The hash differs from
/// process to process, so no client can choose keys that collide.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// A value that can name a lock: a text, a [`Key`], or the result of rendering a key.
///
/// # Examples
///
/// ```
/// use lock_core::LockError;
/// use lock_core::key::{IntoKey, Key, KeyBuilder};
///
/// fn lock(key: impl IntoKey) -> Result<Key, LockError> {
///     key.into_key()
/// }
///
/// assert_eq!(lock("order:42")?, lock(KeyBuilder::new().literal("order:").value(&42).finish())?);
/// # Ok::<(), LockError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock key",
    label = "expected text, a `Key`, or the result of rendering one",
    note = "build one with `KeyBuilder::new().literal(\"order:\").value(&id).finish()`, which encodes the value"
)]
pub trait IntoKey {
    /// Converts the value into a key.
    ///
    /// # Errors
    ///
    /// [`LockErrorKind::InvalidKey`] if the text is empty. If `self` is an error, that error is returned.
    fn into_key(self) -> Result<Key>;
}

impl IntoKey for &str {
    fn into_key(self) -> Result<Key> {
        Key::new(self)
    }
}

impl IntoKey for String {
    fn into_key(self) -> Result<Key> {
        Key::new(&self)
    }
}

impl IntoKey for &String {
    fn into_key(self) -> Result<Key> {
        Key::new(self)
    }
}

impl IntoKey for Key {
    fn into_key(self) -> Result<Key> {
        Ok(self)
    }
}

impl IntoKey for &Key {
    fn into_key(self) -> Result<Key> {
        Ok(self.clone())
    }
}

impl IntoKey for Result<Key> {
    fn into_key(self) -> Result<Key> {
        self
    }
}
