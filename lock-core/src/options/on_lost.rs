//! Defines what happens to a body when its lock is lost.

/// What happens to a running body when its lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped at its current await point, and the caller receives `Lost`. This is the default.
    #[default]
    Cancel,
    /// The body runs to its end, and the caller then receives `Lost`. Use this for work that must not stop half way. A
    /// fencing token must then protect the resource.
    Finish,
}
