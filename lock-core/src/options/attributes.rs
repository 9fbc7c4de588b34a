//! Collects the profiles that the attributes of a program name, so that the program does not have to list them.
//!
//! The profiles are checked at start-up, when the functions with the attributes have not been called yet. So each
//! attribute that names a profile registers a constant with the library `inventory`, whose constructors run before
//! `main`. Without a build step, this is the only way to find uncalled functions in all crates. The registration needs
//! no unsafe code here, and exists only with the feature `config`.

use super::check::check_several;
use super::named::{Named, find};
use super::options::Options;
use super::take::check_take;
use crate::backend::Capability;
use crate::error::{LockError, LockErrorKind, Result};

/// The use of a profile by one attribute.
#[doc(hidden)]
#[derive(Debug)]
pub struct NamedProfile {
    pub(crate) profile: &'static str,
    function: &'static str,
    file: &'static str,
    line: u32,
    /// Whether the function locks several keys.
    several: bool,
    /// Whether the attribute sets a kind, which overrides the kind of the profile.
    has_kind: bool,
    /// The `take` of the attribute. If the attribute sets no `take`, or sets it to an expression, this field is 1.
    take: u32,
}

inventory::collect!(NamedProfile);

impl NamedProfile {
    /// Creates the entry that the generated code registers.
    #[must_use]
    pub const fn new(
        profile: &'static str,
        function: &'static str,
        file: &'static str,
        line: u32,
        several: bool,
        has_kind: bool,
        take: u32,
    ) -> Self {
        Self { profile, function, file, line, several, has_kind, take }
    }

    /// Returns an error if the profile is missing or does not fit the attribute. The error contains the reason, and the
    /// place of the attribute.
    pub(crate) fn check(&self, defaults: &Options, named: &Named, store: &Capability) -> Result<()> {
        let outcome = find(named, self.profile).and_then(|profile| {
            let options = profile.options.clone().or(defaults);
            let checked = self.check_options(&options, store);
            checked.map_err(|error| invalid(format!("profile `{}`: {}", self.profile, error.detail())))
        });
        outcome.map_err(|error| invalid(format!("{}{}", error.detail(), self.place())))
    }

    fn check_options(&self, options: &Options, store: &Capability) -> Result<()> {
        let kind = options.kind();
        match self.has_kind {
            true => Ok(()),
            false if self.several => check_several(kind),
            false => check_take(self.take, kind, store).map_err(|flaw| flaw.error),
        }
    }

    fn place(&self) -> String {
        let Self { function, file, line, .. } = self;
        format!(" (named by `{function}`, {file}:{line})")
    }
}

/// Returns an entry for each attribute of the program that names a profile, sorted by file and line.
pub(crate) fn named_by_attributes() -> Vec<&'static NamedProfile> {
    let mut all: Vec<_> = inventory::iter::<NamedProfile>.into_iter().collect();
    all.sort_by_key(|named| (named.file, named.line, named.function));
    all
}

fn invalid(detail: String) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, detail)
}

/// Registers the profile that an attribute names. Without the feature `config`, this macro expands to nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_profile {
    ($profile:literal, $function:literal, $several:literal, $has_kind:literal, $take:literal) => {
        $crate::__private::inventory::submit! {
            $crate::__private::NamedProfile::new(
                $profile,
                ::core::concat!(::core::module_path!(), "::", $function),
                ::core::file!(),
                ::core::line!(),
                $several,
                $has_kind,
                $take,
            )
        }
    };
}
