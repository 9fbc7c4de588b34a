//! What became of a request that left in a batch.

use crate::backend::redis::error::Failure;
use crate::clock::Moment;

/// What became of one request.
#[derive(Debug)]
pub(super) enum Outcome<A, F = Failure> {
    Answered(A),
    /// It was not executed, or may be executed again: the caller sends it alone, by this end.
    Alone(Moment),
    Failed(F),
    /// The server did not answer in time.
    Elapsed,
}

impl<A, F> Outcome<A, F> {
    pub(super) fn map_failure<G>(self, map: impl FnOnce(F) -> G) -> Outcome<A, G> {
        match self {
            Self::Answered(answer) => Outcome::Answered(answer),
            Self::Alone(end) => Outcome::Alone(end),
            Self::Failed(failure) => Outcome::Failed(map(failure)),
            Self::Elapsed => Outcome::Elapsed,
        }
    }
}
