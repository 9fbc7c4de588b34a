//! What takes the place of `templates` in a build without the feature `metrics`.

/// Returns none: nothing is registered for them.
pub(crate) fn templates_of_attributes() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// What an attribute expands to: nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_template {
    ($template:literal) => {};
}
