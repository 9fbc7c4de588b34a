//! Replaces `attributes` in a build without the feature `config`.

/// Expands to nothing. Without the feature `config`, the profiles that attributes name are not collected.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_profile {
    ($profile:literal, $function:literal, $several:literal, $has_kind:literal, $take:literal) => {};
}
