//! Defaults of a manager, and named sets of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::options::Options;
use super::release::Release;
use crate::backend::Capability;
use crate::error::{LockError, LockErrorKind, Result};
use crate::strategy::Strategy;

/// A named set of defaults. What a request does not set comes from its profile, then from the manager.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::{Profile, strategy};
///
/// let checkout = Profile::new().ttl(Duration::from_millis(500)).strategy(strategy::fail_fast());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Profile {
    pub(crate) options: Options,
}

impl Profile {
    /// A profile without any default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the lease. Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets what to do when the key is held. Default: the manager's, [`retry`](crate::strategy::retry()).
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets how long a bounded strategy waits. Default: the strategy's own limit.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.options.wait = Some(limit);
        self
    }

    /// Sets whether the lease is renewed. Default: yes.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = Some(renew);
        self
    }

    /// Sets what the caller of a body waits for once the body has ended: see [`Release`]. Default: [`Release::Await`].
    pub fn release(mut self, release: Release) -> Self {
        self.options.release = Some(release);
        self
    }

    /// Sets how long a released lock stays at hand for this process: see
    /// [`LockRequest::linger`](crate::LockRequest::linger). It counts for those requests of the profile that can have
    /// it, at most for a third of their ttl. Zero switches off what the manager says. Default: the manager's, not at
    /// all.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.options.linger = Some(linger);
        self
    }

    /// Returns whether it sets what to do when the key is held: a strategy, or how long to wait.
    #[must_use]
    pub fn has_strategy(&self) -> bool {
        self.options.strategy.is_some() || self.options.wait.is_some()
    }
}

/// The defaults of one manager.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub(crate) defaults: Options,
    /// How many keys a request may have.
    pub(crate) max_keys: usize,
    pub(crate) named: BTreeMap<String, Profile>,
}

impl Profiles {
    /// How many keys a request may have by default, and the largest number that can be set. One script handles all of
    /// them, and the server does nothing else meanwhile: 100 take about a millisecond.
    pub(crate) const DEFAULT_KEYS: usize = 100;
    pub(crate) const MOST_KEYS: usize = 1_000;

    pub(crate) fn get(&self, name: &str) -> Result<&Profile> {
        self.named.get(name).ok_or_else(|| {
            let known: Vec<_> = self.named.keys().map(String::as_str).collect();
            let near = known.iter().max_by(|a, b| likeness(name, a).total_cmp(&likeness(name, b)));
            let detail = match near {
                None => format!(
                    "profile `{name}` is not there: the manager has none, add it with `.profile(\"{name}\", ..)`"
                ),
                Some(near) if likeness(name, near) > 0.8 => {
                    format!("profile `{name}` is not there; did you mean `{near}`?")
                }
                Some(_) => format!("profile `{name}` is not there; the manager has: {}", known.join(", ")),
            };
            LockError::new(LockErrorKind::InvalidRequest, detail)
        })
    }

    /// Refuses defaults and profiles that the store or their own strategy cannot serve.
    pub(crate) fn check(&self, store: &Capability) -> Result<()> {
        if !(1..=Self::MOST_KEYS).contains(&self.max_keys) {
            let detail = format!("max_keys is {}: it is 1 to {}", self.max_keys, Self::MOST_KEYS);
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        self.defaults.check("the default", &self.defaults, store)?;
        for (name, profile) in &self.named {
            profile.options.check(&format!("profile `{name}`:"), &self.defaults, store)?;
        }
        Ok(())
    }

    /// Refuses `names` without a profile, all in one error.
    pub(crate) fn require<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let missing: Vec<LockError> = names.into_iter().filter_map(|name| self.get(name).err()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let details: Vec<&str> = missing.iter().map(LockError::detail).collect();
        Err(LockError::new(LockErrorKind::InvalidRequest, details.join("; ")))
    }
}

fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(one, other)
}

impl Default for Profiles {
    fn default() -> Self {
        Self { defaults: Options::of_this_crate(), max_keys: Self::DEFAULT_KEYS, named: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy;

    fn profiles() -> Profiles {
        let mut profiles = Profiles::default();
        profiles.named.insert("checkout".to_owned(), Profile::new());
        profiles.named.insert("nightly".to_owned(), Profile::new());
        profiles
    }

    #[test]
    fn every_missing_name_is_told_at_once() {
        assert!(profiles().require(["checkout", "nightly"]).is_ok());
        let error = profiles().require(["chekcout", "nightly", "import"]).unwrap_err().to_string();
        for part in
            ["`chekcout` is not there; did you mean `checkout`?", "`import` is not there; the manager has"]
        {
            assert!(error.contains(part), "{error}");
        }
        let error = Profiles::default().require(["a"]).unwrap_err().to_string();
        assert!(error.contains("the manager has none"), "{error}");
    }

    #[test]
    fn a_profile_must_fit_the_store_and_its_strategy() {
        let store = Capability::exclusive("small");
        assert!(profiles().check(&store).is_ok());
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
        ];
        for (profile, expected) in table {
            let mut profiles = profiles();
            profiles.named.insert("p".to_owned(), profile);
            let error = profiles.check(&store).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
