//! The profiles that the attributes of a program name, collected without a list by hand.
//!
//! The code of an attribute is inside its function, which may never be called before a check at start-up. So each
//! attribute that names a profile leaves a constant, and a constructor that runs before `main` links it to the others:
//! the library `inventory`. It is the only way that finds a function that nobody has called, in whichever crate it is,
//! without a step of the build. It needs no unsafe code here, and a program asks for it with the feature `config`.

/// A profile that an attribute names.
#[doc(hidden)]
#[derive(Debug)]
pub struct NamedProfile {
    pub(crate) profile: &'static str,
    function: &'static str,
    file: &'static str,
    line: u32,
    /// Whether the function locks several keys.
    pub(crate) several: bool,
    /// How many permits of the profile's semaphore it takes; 1 where the attribute says nothing, or only an expression.
    pub(crate) take: u32,
}

inventory::collect!(NamedProfile);

impl NamedProfile {
    /// What the generated code leaves.
    #[must_use]
    pub const fn new(
        profile: &'static str,
        function: &'static str,
        file: &'static str,
        line: u32,
        several: bool,
        take: u32,
    ) -> Self {
        Self { profile, function, file, line, several, take }
    }

    /// Returns where it is named, for an error.
    pub(crate) fn place(&self) -> String {
        let Self { function, file, line, .. } = self;
        format!(" (named by `{function}`, {file}:{line})")
    }
}

/// Returns all that the attributes of the program name, in the order of the code.
pub(crate) fn named_by_attributes() -> Vec<&'static NamedProfile> {
    let mut all: Vec<_> = inventory::iter::<NamedProfile>.into_iter().collect();
    all.sort_by_key(|named| (named.file, named.line, named.function));
    all
}

/// What an attribute with a profile expands to. Without the feature `config` it is nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_profile {
    ($profile:literal, $function:literal, $several:literal, $take:literal) => {
        $crate::__private::inventory::submit! {
            $crate::__private::NamedProfile::new(
                $profile,
                ::core::concat!(::core::module_path!(), "::", $function),
                ::core::file!(),
                ::core::line!(),
                $several,
                $take,
            )
        }
    };
}
