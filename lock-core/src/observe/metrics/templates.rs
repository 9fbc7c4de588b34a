//! The templates of the attributes of a program, collected without a list by hand. `options/attributes.rs`, which
//! collects their profiles, says how and why.

/// The template of an attribute without a `manager`.
#[doc(hidden)]
#[derive(Debug)]
pub struct NamedTemplate(&'static str);

inventory::collect!(NamedTemplate);

impl NamedTemplate {
    /// The entry that the generated code registers.
    #[must_use]
    pub const fn new(template: &'static str) -> Self {
        Self(template)
    }
}

/// Returns the templates of all attributes of the program.
pub(crate) fn templates_of_attributes() -> impl Iterator<Item = &'static str> {
    inventory::iter::<NamedTemplate>.into_iter().map(|named| named.0)
}

/// The expansion of an attribute. Without the feature `metrics` it expands to nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_template {
    ($template:literal) => {
        $crate::__private::inventory::submit! {
            $crate::__private::NamedTemplate::new($template)
        }
    };
}
