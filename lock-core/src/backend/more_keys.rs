//! The keys of a claim after its first key.

use std::ops::Deref;
use std::sync::Arc;

use crate::key::Key;

/// The keys of a claim after its first key, as a slice. A clone increments a reference count. Most claims have no
/// further keys, and then a clone costs nothing. A clone of an empty `Arc<[Key]>` would instead increment a count that
/// all threads of the process share.
///
/// # Examples
/// ```
/// use lock_core::backend::MoreKeys;
/// use lock_core::key::Key;
///
/// let keys: MoreKeys = [Key::new("b")?, Key::new("c")?].into();
/// assert_eq!(keys.len(), 2);
/// assert!(MoreKeys::default().is_empty());
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoreKeys(Option<Arc<[Key]>>);

impl MoreKeys {
    /// Returns the keys in an `Arc`.
    #[must_use]
    pub fn to_arc(&self) -> Arc<[Key]> {
        self.0.clone().unwrap_or_default()
    }
}

impl Deref for MoreKeys {
    type Target = [Key];

    fn deref(&self) -> &[Key] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl FromIterator<Key> for MoreKeys {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        let keys: Arc<[Key]> = keys.into_iter().collect();
        Self(Some(keys).filter(|keys| !keys.is_empty()))
    }
}

impl<const N: usize> From<[Key; N]> for MoreKeys {
    fn from(keys: [Key; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl From<&[Key]> for MoreKeys {
    fn from(keys: &[Key]) -> Self {
        keys.iter().cloned().collect()
    }
}

impl From<Vec<Key>> for MoreKeys {
    fn from(keys: Vec<Key>) -> Self {
        keys.into_iter().collect()
    }
}
