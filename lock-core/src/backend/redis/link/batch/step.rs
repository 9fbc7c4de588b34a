//! One request of a batch, and what came of it.

use std::fmt;

use ::redis::Cmd;

use crate::backend::FencingToken;
use crate::backend::redis::error::Failure;
use crate::key::Key;
use crate::owner::Owner;

/// One request of a batch.
pub(crate) enum Step {
    Release {
        key: Key,
        /// The beginning of the stored value, up to the mark.
        head: [u8; Owner::TOKEN_LEN + 1],
    },
    Acquire {
        key: Key,
        value: String,
        /// In ms.
        lease: u64,
        /// How long to remember the fencing token, in ms; `None` where none is asked for.
        fence: Option<u64>,
    },
}

/// The place of a step in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Release,
    Acquire,
    AcquireFenced,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the owner token, which is a secret.
        f.debug_tuple("Step").field(self.key()).finish()
    }
}

impl Step {
    pub(super) fn key(&self) -> &Key {
        match self {
            Self::Release { key, .. } | Self::Acquire { key, .. } => key,
        }
    }

    pub(super) fn part(&self) -> Part {
        match self {
            Self::Release { .. } => Part::Release,
            Self::Acquire { fence: None, .. } => Part::Acquire,
            Self::Acquire { fence: Some(_), .. } => Part::AcquireFenced,
        }
    }

    /// Appends the arguments of the step.
    pub(super) fn push_to(&self, command: &mut Cmd) {
        match self {
            Self::Release { head, .. } => command.arg(&head[..]),
            Self::Acquire { value, lease, fence, .. } => {
                command.arg(value).arg(*lease);
                fence.iter().fold(command, |command, remember| command.arg(*remember))
            }
        };
    }
}

/// What came of a step.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Released, or acquired, with the fencing token that was asked for.
    Done(Option<FencingToken>),
    /// The stored value begins in another way, or somebody holds the lock.
    Refused,
    /// It had no effect: the request has to be sent by itself.
    Alone,
    Failed(Failure),
    /// There was no answer by the deadline of the step.
    Late,
}

impl Outcome {
    /// Returns what the failure of the whole call means to each step.
    pub(super) fn of_failure(failure: Failure) -> Self {
        // A refusal of the whole may be due to the key of one step. The others must not fail with it.
        if failure.is_in_doubt() { Self::Failed(failure) } else { Self::Alone }
    }
}
