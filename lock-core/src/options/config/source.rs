//! Reads profiles from their sources, and merges them into one set.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::mistake::{Mistakes, Origin};
use super::written::Written;
use super::{environment, file, read};
use crate::error::{LockError, LockErrorKind, Result};
use crate::options::flaw::Flaw;
use crate::options::named::Named;
use crate::options::profile::Profile;
use crate::words::suggest::nearest;

/// The sources from which a manager reads its profiles.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    /// Whether the variables `LOCK_PROFILE_..` are read.
    pub(crate) environment: bool,
    /// Whether the file had profiles when it was last read.
    had_profiles: AtomicBool,
}

/// The maximum length of a file, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// The written options of all profiles, by name.
type Profiles = BTreeMap<String, Written>;

impl Source {
    /// Reads the file and the variables. A variable overrides the file, and the file overrides the program. `flaws`
    /// returns the options that no request could use. The error contains all mistakes.
    pub(crate) fn load(
        &self,
        coded: &Named,
        flaws: impl FnOnce(&Named) -> Vec<(String, Flaw)>,
    ) -> Result<Named> {
        let (mut mistakes, mut lost_all) = (Mistakes::default(), None);
        let of_file = match &self.file {
            Some(path) => {
                let name = path.display().to_string();
                let text = text_of(path).map_err(|error| {
                    let detail = format!("the configuration {name} cannot be read: {error}");
                    LockError::new(LockErrorKind::InvalidRequest, detail).with_source(error)
                })?;
                let profiles = file::read(&name, &text, &mut mistakes);
                lost_all = self.lost_all(&name, &text, &profiles);
                profiles
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
        let named = merge(coded, &of_file, &of_environment, mistakes, flaws)?;
        // This check is the last, because mistakes in the content are more useful to the user.
        if let Some(error) = lost_all {
            return Err(error);
        }
        self.had_profiles.store(!of_file.is_empty(), Ordering::Release);
        Ok(named)
    }

    /// Returns an error if the file had profiles before and has none now, because the file may be only partly written.
    /// An empty table `[profile]` states that there are no profiles, and is accepted.
    fn lost_all(&self, name: &str, text: &str, profiles: &Profiles) -> Option<LockError> {
        let says_none = || text.lines().any(|line| line.trim() == "[profile]");
        if !profiles.is_empty() || !self.had_profiles.load(Ordering::Acquire) || says_none() {
            return None;
        }
        let detail = format!(
            "the configuration {name} had profiles and has none now: it may be half written, so replace it by a rename; \
             where it is to have none, write `[profile]` and nothing below it"
        );
        Some(LockError::new(LockErrorKind::InvalidRequest, detail))
    }
}

/// Returns the text of a regular file of at most [`LONGEST`] bytes.
fn text_of(path: &Path) -> std::io::Result<String> {
    // The file type is checked first, because opening a pipe that has no writer would block forever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(std::io::Error::other("it is longer than 1 MiB"));
    }
    Ok(text)
}

/// Returns the profiles of all sources, merged option by option.
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

/// Returns the place where the option is written, or otherwise the place of its profile.
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

/// Logs a warning if a variable defines a new profile whose name is similar to a known profile. This is not an error,
/// because it may be intended.
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
