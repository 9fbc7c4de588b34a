//! Where profiles are read from, and the one state that comes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::mistake::{Mistakes, Origin};
use super::written::Written;
use super::{environment, file, read};
use crate::error::{LockError, LockErrorKind, Result};
use crate::options::flaw::Flaw;
use crate::options::profile::Profile;
use crate::options::profiles::Named;
use crate::words::suggest::nearest;

/// Where a manager reads its profiles from.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    /// Whether it reads the variables `LOCK_PROFILE_..`.
    pub(crate) environment: bool,
}

/// What is written of each profile.
type Profiles = BTreeMap<String, Written>;

impl Source {
    /// Reads everything. What a variable says comes before the file, and the file before what the program wrote.
    /// `flaws` finds what no request could use. An error has all mistakes.
    pub(crate) fn load(
        &self,
        coded: &Named,
        flaws: impl FnOnce(&Named) -> Vec<(String, Flaw)>,
    ) -> Result<Named> {
        let mut mistakes = Mistakes::default();
        let of_file = match &self.file {
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).map_err(|error| {
                    let detail = format!("the configuration {name} cannot be read: {error}");
                    LockError::new(LockErrorKind::InvalidRequest, detail).with_source(error)
                })?;
                file::read(&name, &text, &mut mistakes)
            }
            None => Profiles::new(),
        };
        let of_environment = if self.environment {
            let known: BTreeSet<&str> = coded.keys().chain(of_file.keys()).map(String::as_str).collect();
            let read = environment::read(std::env::vars_os(), &known, &mut mistakes);
            warn_of_new(&read, &known);
            read
        } else {
            Profiles::new()
        };
        merge(coded, &of_file, &of_environment, mistakes, flaws)
    }
}

/// Makes one state of what is written.
pub(super) fn merge(
    coded: &Named,
    of_file: &Profiles,
    of_environment: &Profiles,
    mut mistakes: Mistakes,
    flaws: impl FnOnce(&Named) -> Vec<(String, Flaw)>,
) -> Result<Named> {
    let nothing = Written::default();
    let mut named = coded.clone();
    let names: BTreeSet<&String> = of_file.keys().chain(of_environment.keys()).collect();
    for name in names {
        let [file, environment] =
            [of_file, of_environment].map(|profiles| profiles.get(name).unwrap_or(&nothing));
        let mut options = read::options(environment, file, &mut mistakes);
        options = options.or(&read::options(file, &nothing, &mut mistakes));
        options.kind = read::kind(environment, file, &mut mistakes);
        options.take = read::take(environment, file, options.kind, &mut mistakes);
        if let Some(coded) = coded.get(name) {
            options = options.or(&coded.options);
        }
        named.insert(name.clone(), Profile { options });
    }
    for (name, flaw) in flaws(&named) {
        let origin = origin_of(&name, flaw.option, of_file, of_environment);
        mistakes.add(origin, format!("profile `{name}`: {}", flaw.error.detail()));
    }
    mistakes.or(named)
}

/// Returns where the option of a profile is written, or else where the profile is.
fn origin_of<'a>(
    name: &str,
    option: &str,
    of_file: &'a Profiles,
    of_environment: &'a Profiles,
) -> Option<&'a Origin> {
    let both = || [of_environment, of_file].into_iter().filter_map(|profiles| profiles.get(name));
    both()
        .find_map(|written| written.origin_of(option))
        .or_else(|| both().find_map(|written| written.begin.as_ref()))
}

/// Says aloud that a variable made a profile with nearly the name of another. It may be meant, so it is no mistake.
fn warn_of_new(of_environment: &Profiles, known: &BTreeSet<&str>) {
    for (name, written) in of_environment.iter().filter(|(name, _)| !known.contains(name.as_str())) {
        if let (Some(near), Some(origin)) = (nearest(name, known.iter().copied()), &written.begin) {
            tracing::warn!(
                "{origin} makes a profile `{name}` of its own, which neither the file nor the program has; did you mean \
                 `{near}`?"
            );
        }
    }
}
