//! Defines [`Granted`]: a grant with the time at which it arrived.

use crate::backend::Grant;
use crate::clock::Moment;

/// A grant from the store, and the time at which the answer arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) arrived: Moment,
}
