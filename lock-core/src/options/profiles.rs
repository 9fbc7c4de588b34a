//! Defines the defaults and the profiles of one manager.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "config")]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "config")]
use super::attributes::{NamedProfile, named_by_attributes};
#[cfg(feature = "config")]
use super::config::Source;
use super::flaw::Flaw;
use super::named::{Named, find};
use super::options::Options;
use crate::backend::Capability;
use crate::error::{LockError, LockErrorKind, Result};
#[cfg(feature = "config")]
use crate::sync::Mutex;
use crate::sync::RwLock;

/// The defaults and the profiles of one manager.
pub(crate) struct Profiles {
    pub(crate) defaults: Options,
    /// The maximum number of keys in a request.
    pub(crate) max_keys: usize,
    /// The profiles that are defined in the code. The options of a configuration take precedence over them.
    pub(crate) coded: Named,
    /// The sources of further profiles.
    #[cfg(feature = "config")]
    pub(crate) source: Source,
    /// The profiles in use. A reload replaces all of them at once, so a request never sees a mixture of old and new
    /// profiles.
    in_force: RwLock<Arc<Named>>,
    /// The number of reloads that have begun. Reloads are numbered, so that an older one does not replace the result of
    /// a newer one.
    #[cfg(feature = "config")]
    reloads: AtomicU64,
    /// The number of the last reload that was applied.
    #[cfg(feature = "config")]
    reloaded: Mutex<u64>,
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiles")
            .field("defaults", &self.defaults)
            .field("max_keys", &self.max_keys)
            .field("named", &self.coded)
            .finish_non_exhaustive()
    }
}

impl Profiles {
    /// The default maximum number of keys in a request. On Redis, one script handles all keys, and the server serves no
    /// other client while the script runs. A script for 100 keys runs for about a millisecond. `MOST_KEYS` is the
    /// highest maximum that can be set.
    pub(crate) const DEFAULT_KEYS: usize = 100;
    pub(crate) const MOST_KEYS: usize = 1_000;

    pub(crate) fn in_force(&self) -> Arc<Named> {
        Arc::clone(&self.in_force.read())
    }

    /// Checks the defaults and the profiles against the store, and applies the profiles. This is called once, before
    /// the first request.
    pub(crate) fn begin(&self, store: &Capability) -> Result<()> {
        if !(1..=Self::MOST_KEYS).contains(&self.max_keys) {
            let detail = format!("max_keys is {}: it is 1 to {}", self.max_keys, Self::MOST_KEYS);
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        self.defaults
            .check(&self.defaults, store)
            .map_err(|flaw| told("the default ", flaw.error.detail()))?;
        self.load(store)
    }

    /// Reads the configuration, checks all profiles against the store, and applies them. If a step fails, the profiles
    /// in use stay unchanged.
    fn load(&self, store: &Capability) -> Result<()> {
        #[cfg(feature = "config")]
        let named = self.source.load(&self.coded, |named| self.flaws(named, store))?;
        #[cfg(not(feature = "config"))]
        let named = self.coded.clone();
        if let Some((name, flaw)) = self.flaws(&named, store).into_iter().next() {
            return Err(told(&format!("profile `{name}`: "), flaw.error.detail()));
        }
        drop(self.replaced_by(named));
        Ok(())
    }

    /// Applies `named`, and returns the previous profiles. Drop them outside of locks, because they may own the last
    /// reference to a strategy, whose drop is code of the application.
    fn replaced_by(&self, named: Named) -> Arc<Named> {
        let named = Arc::new(named);
        self.in_force.with(|in_force| std::mem::replace(in_force, named))
    }

    /// Loads the profiles again like [`load`](Self::load), while requests run. Also fails if an attribute that was
    /// valid no longer fits its profile.
    #[cfg(feature = "config")]
    pub(crate) fn reload(&self, store: &Capability) -> Result<()> {
        // No lock is held while the configuration is read, because reading may log warnings, which runs code of the
        // application.
        let number = self.reloads.fetch_add(1, Ordering::AcqRel) + 1;
        let named = self.source.load(&self.coded, |named| self.flaws(named, store))?;
        let before = self.in_force();
        let fitted = |attribute: &&NamedProfile| attribute.check(&self.defaults, &before, store).is_ok();
        let fits = |attribute: &NamedProfile| attribute.check(&self.defaults, &named, store);
        all_of(named_by_attributes().into_iter().filter(fitted).map(fits))
            .map_err(|error| told("nothing was reloaded: ", error.detail()))?;
        let mut named = Some(named);
        let before = self.reloaded.with(|last| {
            // A reload that began later may already have applied a newer state.
            let is_newest = *last < number;
            *last = number.max(*last);
            is_newest.then(|| named.take().map(|named| self.replaced_by(named)))
        });
        drop((before, named));
        Ok(())
    }

    /// Returns the flaws of the profiles, each with the name of its profile.
    pub(super) fn flaws(&self, named: &Named, store: &Capability) -> Vec<(String, Flaw)> {
        let mut flaws = Vec::new();
        for (name, profile) in named {
            let mut options = profile.options.clone();
            while let Err(flaw) = options.check(&self.defaults, store) {
                // Unset the option with the flaw, so that the next check finds the next flaw. If the profile does not
                // set that option, the flaw comes from the defaults, and every further check would find it again.
                let more = options.unset(flaw.option);
                flaws.push((name.clone(), flaw));
                if !more {
                    break;
                }
            }
        }
        flaws
    }

    /// Checks every attribute that names a profile against that profile.
    #[cfg(feature = "config")]
    pub(crate) fn check_attributes(&self, store: &Capability) -> Result<()> {
        let named = self.in_force();
        all_of(
            named_by_attributes().into_iter().map(|attribute| attribute.check(&self.defaults, &named, store)),
        )
    }

    /// Returns one error that lists all `names` without a profile. The second text of a pair is added to the message
    /// for its name.
    pub(crate) fn require<'a>(&self, names: impl IntoIterator<Item = (&'a str, String)>) -> Result<()> {
        let named = self.in_force();
        let missing: Vec<String> = names
            .into_iter()
            .filter_map(|(name, whose)| {
                find(&named, name).err().map(|error| format!("{}{whose}", error.detail()))
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(LockError::new(LockErrorKind::InvalidRequest, missing.join("; ")))
    }
}

/// Returns all errors as one error.
#[cfg(feature = "config")]
fn all_of(checks: impl Iterator<Item = Result<()>>) -> Result<()> {
    let errors: Vec<String> = checks.filter_map(|check| Some(check.err()?.detail().to_owned())).collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(LockError::new(LockErrorKind::InvalidRequest, errors.join("; "))),
    }
}

fn told(whose: &str, detail: &str) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, format!("{whose}{detail}"))
}

impl Default for Profiles {
    fn default() -> Self {
        Self {
            defaults: Options::of_this_crate(),
            max_keys: Self::DEFAULT_KEYS,
            coded: Named::new(),
            #[cfg(feature = "config")]
            source: Source::default(),
            in_force: RwLock::default(),
            #[cfg(feature = "config")]
            reloads: AtomicU64::new(0),
            #[cfg(feature = "config")]
            reloaded: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Profile;
    use crate::kind::Kind;
    use crate::strategy::{self, Backoff};

    fn profiles() -> Profiles {
        let mut profiles = Profiles::default();
        profiles.coded.insert("checkout".to_owned(), Profile::new());
        profiles.coded.insert("nightly".to_owned(), Profile::new());
        profiles
    }

    fn in_force() -> Profiles {
        let profiles = profiles();
        profiles.begin(&Capability::exclusive("small")).expect("they fit");
        profiles
    }

    fn require(profiles: &Profiles, names: &[&str]) -> Result<()> {
        profiles.require(names.iter().map(|name| (*name, String::new())))
    }

    #[test]
    fn every_missing_name_is_told_at_once() {
        assert!(require(&in_force(), &["checkout", "nightly"]).is_ok());
        let error = require(&in_force(), &["chekcout", "nightly", "import"]).unwrap_err().to_string();
        for part in [
            "`chekcout` is not there; the manager has: checkout, nightly; did you mean `checkout`?",
            "`import` is not there; the manager has",
        ] {
            assert!(error.contains(part), "{error}");
        }
        let error = require(&Profiles::default(), &["a"]).unwrap_err().to_string();
        assert!(error.contains("the manager has none"), "{error}");
    }

    #[test]
    fn a_profile_must_fit_the_store_and_its_strategy() {
        let store = Capability::exclusive("small");
        assert!(profiles().begin(&store).is_ok());
        let table = [
            (
                Profile::new().ttl(Duration::from_millis(1)),
                "profile `p`: ttl is 1ms: the small store holds 10ms",
            ),
            (
                Profile::new().strategy(strategy::skip()).wait(Duration::from_secs(1)),
                "profile `p`: wait is 1s, but strategy `skip` takes no limit",
            ),
            (
                Profile::new().linger(Duration::from_millis(5)),
                "profile `p`: linger is 5ms, and the small store tells no holder that somebody waits",
            ),
            (Profile::new().kind(Kind::Fair), "profile `p`: the small store has no fair locks"),
            (Profile::new().take(0), "profile `p`: take is 0"),
            (Profile::new().take(2), "profile `p`: take is 2, and a lock of kind reentrant has no permits"),
            (Profile::new().max_waiters(0), "profile `p`: max_waiters is 0"),
            (
                Profile::new().strategy(strategy::skip()).max_waiters(3),
                "profile `p`: max_waiters is 3, but strategy `skip` does not wait",
            ),
            (
                Profile::new().strategy(strategy::skip()).backoff(Backoff::default()),
                "profile `p`: a backoff is given, but strategy `skip` takes none",
            ),
            (
                Profile::new().renew(false).renew_every(Duration::from_secs(1)),
                "profile `p`: renew_every is 1s, but the lease is not renewed",
            ),
            (Profile::new().max_hold(Duration::ZERO), "profile `p`: max_hold is 0"),
        ];
        for (profile, expected) in table {
            let mut profiles = profiles();
            profiles.coded.insert("p".to_owned(), profile);
            let error = profiles.begin(&store).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
