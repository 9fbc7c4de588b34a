//! The effect of a lost lock on the body.

/// The treatment of the body when the lock is lost while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped at its current await point, and the caller gets `Lost`. The default.
    #[default]
    Cancel,
    /// The body runs to its end, and the caller gets `Lost` after that. For work that must not stop half way and whose
    /// effects are fenced.
    Finish,
}
