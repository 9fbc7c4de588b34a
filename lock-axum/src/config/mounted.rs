//! Defines the configuration that a service carries.

use std::sync::Arc;

use lock_core::LockManager;

use super::checked::Config;
use super::options::Options;
use crate::answer::Answers;
use crate::key::Keys;

/// The configuration that the clones of one service share.
#[derive(Clone, Debug)]
pub(crate) enum Mounted {
    Valid(Arc<Config>),
    /// The options contradict each other. Every request is refused, and these `Answers` make the responses.
    Invalid(Arc<Answers>),
}

impl Mounted {
    /// Checks the layer. Never panics, because a router may mount a layer while it accepts a connection.
    pub(crate) fn new(manager: &LockManager, keys: &Keys, options: &Options) -> Self {
        let error = match Config::new(manager.clone(), keys.clone(), options.clone()) {
            Ok(config) => return Self::Valid(Arc::new(config)),
            Err(error) => error,
        };
        options.logged.misconfigured(keys.template(), &error);
        // If the answer options conflict, fall back to the defaults.
        let answers =
            options.answers.check().map_or_else(|_| Answers::default(), |()| options.answers.clone());
        Self::Invalid(Arc::new(answers))
    }
}
