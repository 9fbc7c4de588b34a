//! Collects the templates of the attributes of a program, so that the program does not have to list them. The comment
//! in `options/attributes.rs`, which collects the profiles, explains how and why.

/// The template of an attribute without the option `manager`.
#[doc(hidden)]
#[derive(Debug)]
pub struct NamedTemplate(&'static str);

inventory::collect!(NamedTemplate);

impl NamedTemplate {
    /// Creates the entry that the generated code registers.
    #[must_use]
    pub const fn new(template: &'static str) -> Self {
        Self(template)
    }
}

/// Returns the templates of all attributes of the program.
pub(crate) fn templates_of_attributes() -> impl Iterator<Item = &'static str> {
    inventory::iter::<NamedTemplate>.into_iter().map(|named| named.0)
}

/// Registers the template of an attribute. Without the feature `metrics`, this macro expands to nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_template {
    ($template:literal) => {
        $crate::__private::inventory::submit! {
            $crate::__private::NamedTemplate::new($template)
        }
    };
}
