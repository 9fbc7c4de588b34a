//! A grant, and when it arrived.

use crate::backend::Grant;
use crate::clock::Moment;

/// A grant of the store, and when the answer that brought it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) arrived: Moment,
}
