//! Replaces `attributes` in a build without the feature `config`.

/// Expands an attribute with a profile to nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_profile {
    ($profile:literal, $function:literal, $several:literal, $has_kind:literal, $take:literal) => {};
}
