//! Checks the options of a layer, and makes lock requests from them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use lock_core::key::Key;
use lock_core::strategy::{self, Strategy};
use lock_core::{LockManager, LockRequest, Result};

use super::check;
use super::options::Options;
use crate::key::Keys;
use crate::label::Label;

/// The keys and options of a layer, without contradictions.
#[derive(Debug)]
pub(crate) struct Config {
    pub(super) manager: LockManager,
    keys: Keys,
    options: Options,
    label: Option<Label>,
    /// The strategy that applies if neither the layer nor its profile has a strategy.
    usual: Arc<dyn Strategy>,
}

impl Config {
    /// Checks the options of a layer against each other, the manager and its store.
    pub(crate) fn new(manager: LockManager, keys: Keys, options: Options) -> Result<Self> {
        let profile = options.profile.as_deref().map(|name| manager.profile(name)).transpose()?;
        let usual: Arc<dyn Strategy> = match options.wait {
            Some(_) => Arc::new(strategy::retry()),
            None => Arc::new(strategy::fail_fast()),
        };
        let strategy = match &options.strategy {
            None if profile.is_some_and(|profile| profile.has_strategy()) => None,
            None => Some(&usual),
            own => own.as_ref(),
        };
        check::options(&keys, &options, strategy.map(AsRef::as_ref))?;
        let label = options.label.clone().map(|text| Label::parse(text, &options.extensions)).transpose()?;
        let config = Self { manager, keys, options, label, usual };
        config.check_sample()?;
        Ok(config)
    }

    /// Makes a sample request and checks it. This covers the options that a lock request also has, the profile, and the
    /// features of the store.
    fn check_sample(&self) -> Result<()> {
        let keys = self.keys();
        let sample = if let Keys::All { .. } = keys {
            // The sample has as many keys as a real request, because the manager limits their number.
            (0..keys.count()).map(|i| Key::new(&i.to_string())).collect::<Result<_>>()?
        } else {
            // The key is the template, so that the error names the template. A template that is too long for a key is
            // replaced by `sample`.
            vec![Key::new(keys.template()).or_else(|_| Key::new("sample"))?]
        };
        self.request(sample, None).check()
    }

    /// Returns the shortest time for which a key stays locked. This is the `min_hold` of the layer, else of its
    /// profile, else 0.
    pub(crate) fn min_hold(&self) -> Duration {
        let options = self.options();
        let of_profile = || {
            let profile = options.profile.as_deref()?;
            self.manager.profile(profile).ok()?.shortest_hold()
        };
        options.own.shortest_hold().or_else(of_profile).unwrap_or_default()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the label of the request with this head.
    pub(crate) async fn label(&self, parts: &mut Parts) -> Option<Cow<'static, str>> {
        match &self.label {
            Some(label) => Some(label.render(parts).await),
            None => None,
        }
    }

    /// Returns the request for the lock on `keys`.
    pub(crate) fn request(&self, keys: Vec<Key>, label: Option<Cow<'static, str>>) -> LockRequest {
        let options = self.options();
        let request = match &keys[..] {
            [key] if !matches!(self.keys(), Keys::All { .. }) => self.manager.request(key, None),
            _ => self.manager.all(keys),
        };
        let mut request = request.template(self.keys().template().to_owned()).options(&options.own);
        request = match &options.strategy {
            Some(strategy) => request.strategy(Arc::clone(strategy)),
            // Each request reads its profile again, because a manager can reload profiles.
            None => request.usual_strategy(Arc::clone(&self.usual)),
        };
        if let Some(wait) = options.wait {
            request = request.wait(wait);
        }
        if let Some(max) = options.max_waiters {
            request = request.max_waiters(max);
        }
        if let Some(label) = label {
            request = request.label(label);
        }
        if let Some(profile) = &options.profile {
            request = request.profile(profile.clone());
        }
        request
    }
}
