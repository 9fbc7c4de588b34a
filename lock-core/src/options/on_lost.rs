//! Defines the effect of a lost lock on the body.

/// What happens to a running body when its lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped at its current await point, and the caller receives `Lost`. This is the default.
    #[default]
    Cancel,
    /// The body runs to its end, and the caller then receives `Lost`. This is for work that must not stop half way, if
    /// a fencing token protects the resource.
    Finish,
}
