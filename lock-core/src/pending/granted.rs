//! A grant, and when it arrived.

use crate::backend::Grant;
use crate::clock::Moment;

/// A grant of the store, and the time at which its answer arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) arrived: Moment,
}
