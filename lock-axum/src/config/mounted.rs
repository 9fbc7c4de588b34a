//! What a mounted layer is.

use std::sync::Arc;

use super::checked::Config;
use super::options::Options;
use crate::answer::Answers;
use crate::key::Keys;

/// What the clones of one service share.
#[derive(Clone, Debug)]
pub(crate) enum Mounted {
    Sound(Arc<Config>),
    /// The options contradict each other, so no request can be served; so are they answered.
    Broken(Arc<Answers>),
}

impl Mounted {
    /// Never panics: a router mounts a layer when it gets its state, and that may be for each connection.
    pub(crate) fn of(keys: &Keys, options: &Options) -> Self {
        let error = match Config::new(keys.clone(), options.clone()) {
            Ok(config) => return Self::Sound(Arc::new(config)),
            Err(error) => error,
        };
        options.told.misconfigured(keys.template(), &error);
        // Answers that are a part of the contradiction would tell the client anything.
        let answers =
            options.answers.check().map_or_else(|_| Answers::default(), |()| options.answers.clone());
        Self::Broken(Arc::new(answers))
    }
}
