//! A layer without contradictions, and the lock request that it makes.

use std::sync::Arc;

use lock_core::key::Key;
use lock_core::strategy::{self, Strategy};
use lock_core::{LockRequest, Result};

use super::check;
use super::options::Options;
use crate::key::{Keys, Rendered};

/// The keys and options of a layer, without contradictions.
#[derive(Debug)]
pub(crate) struct Config {
    keys: Keys,
    options: Options,
    /// `None` if it comes from the profile.
    strategy: Option<Arc<dyn Strategy>>,
}

impl Config {
    /// Checks the options of a layer against each other, the manager and its store.
    pub(crate) fn new(keys: Keys, options: Options) -> Result<Self> {
        let profile = options.profile.as_deref().map(|name| options.manager.profile(name)).transpose()?;
        let strategy: Option<Arc<dyn Strategy>> = match &options.strategy {
            Some(strategy) => Some(Arc::clone(strategy)),
            None if profile.is_some_and(|profile| profile.has_strategy()) => None,
            None if options.wait.is_some() => Some(Arc::new(strategy::retry())),
            None => Some(Arc::new(strategy::fail_fast())),
        };
        check::all(&keys, &options, strategy.as_deref())?;
        let config = Self { keys, options, strategy };
        config.check_sample()?;
        Ok(config)
    }

    /// Checks a sample request: the options that a request has too, with the profile, and what the store supports.
    fn check_sample(&self) -> Result<()> {
        let keys = self.keys();
        let sample = if let Keys::All { .. } = keys {
            // As many keys as a real request has, because the manager limits their number.
            Rendered::All((0..keys.count()).map(|i| Key::new(&i.to_string())).collect::<Result<_>>()?)
        } else {
            // The template, so that the error names it. It may be too long for a key, although no real key is.
            Rendered::One(Key::new(keys.template()).or_else(|_| Key::new("sample"))?)
        };
        self.request(sample).check()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the request for the lock on `keys`.
    pub(crate) fn request(&self, keys: Rendered) -> LockRequest {
        let options = self.options();
        let request = match keys {
            Rendered::One(key) => options.manager.request(key, options.kind),
            Rendered::All(keys) => options.manager.all(keys),
        };
        let mut request = request.template(self.keys().template().to_owned()).fencing(options.fencing);
        if let Some(strategy) = &self.strategy {
            request = request.strategy(Arc::clone(strategy));
        }
        if let Some(ttl) = options.ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = options.wait {
            request = request.wait(wait);
        }
        if let Some(renew) = options.renew {
            request = request.renew(renew);
        }
        if let Some(release) = options.release {
            request = request.release(release);
        }
        if let Some(every) = options.renew_every {
            request = request.renew_every(every);
        }
        if let Some(min) = options.min_hold {
            request = request.min_hold(min);
        }
        if let Some(linger) = options.linger {
            request = request.linger(linger);
        }
        if let Some(max) = options.max_hold {
            request = request.max_hold(max);
        }
        if let Some(max) = options.max_waiters {
            request = request.max_waiters(max);
        }
        if let Some(label) = &options.label {
            request = request.label(label.clone());
        }
        if let Some(profile) = &options.profile {
            request = request.profile(profile.clone());
        }
        request
    }
}
