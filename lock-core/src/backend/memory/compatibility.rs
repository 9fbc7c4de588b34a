//! Computes how much of a key is in use, and which claims are compatible with this use.

use crate::backend::{Claim, Mode};

/// The part of a key that one claim uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    pub(super) mode: Mode,
    /// The number of permits. It is 1 for any mode other than a permit.
    pub(super) permits: usize,
}

impl Share {
    pub(super) fn new(claim: &Claim) -> Self {
        let permits = match claim.mode {
            Mode::Permit { .. } => usize::try_from(claim.permits).unwrap_or(usize::MAX),
            Mode::Exclusive | Mode::Shared => 1,
        };
        Self { mode: claim.mode, permits }
    }
}

/// The use of a key: the mode of the holders, and the number of holders or of their permits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    mode: Option<Mode>,
    count: usize,
}

/// Whether another holder of a mode is compatible with the present holders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Compatibility {
    Compatible,
    Blocked,
    /// The key is in use in this mode, which can never share the key with the requested mode.
    Conflict(Mode),
}

impl Usage {
    pub(super) fn new(mode: Option<Mode>, count: usize) -> Self {
        Self { mode, count }
    }

    pub(super) fn admits(self, share: Share) -> Compatibility {
        use Mode::{Exclusive, Permit, Shared};
        match (self.mode, share.mode) {
            (None, _) | (Some(Shared), Shared) => Compatibility::Compatible,
            (Some(Exclusive), Exclusive | Shared) | (Some(Shared), Exclusive) => Compatibility::Blocked,
            (Some(Permit { of }), Permit { of: asked }) if of == asked => {
                if self.count.saturating_add(share.permits) <= usize::try_from(of).unwrap_or(usize::MAX) {
                    Compatibility::Compatible
                } else {
                    Compatibility::Blocked
                }
            }
            (Some(other), _) => Compatibility::Conflict(other),
        }
    }

    pub(super) fn add(&mut self, share: Share) {
        self.mode = Some(share.mode);
        self.count = self.count.saturating_add(share.permits);
    }

    /// Returns the number of holders, or of their permits.
    pub(super) fn count(self) -> usize {
        self.count
    }

    /// Returns the usage with `count` more holders of `mode`, or with `count` more permits.
    pub(super) fn with(self, mode: Mode, count: usize) -> Self {
        Self { mode: Some(mode), count: self.count + count }
    }

    pub(super) fn is_exclusive(self) -> bool {
        self.mode == Some(Mode::Exclusive)
    }
}
