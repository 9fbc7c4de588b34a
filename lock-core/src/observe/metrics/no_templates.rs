//! Replaces `templates` in a build without the feature `metrics`.

/// Returns an empty iterator.
pub(crate) fn templates_of_attributes() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// Expands to nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_template {
    ($template:literal) => {};
}
