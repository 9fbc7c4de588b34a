//! Replaces `templates` in a build without the feature `metrics`.

/// Returns no templates, so nothing is registered.
pub(crate) fn templates_of_attributes() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// Expands an attribute to nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_template {
    ($template:literal) => {};
}
