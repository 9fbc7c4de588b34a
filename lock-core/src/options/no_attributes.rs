//! What takes the place of `attributes` in a build without the feature `config`.

/// What an attribute with a profile expands to: nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_profile {
    ($profile:literal, $function:literal, $several:literal, $has_kind:literal, $take:literal) => {};
}
