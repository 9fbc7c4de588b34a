//! Defines the states of a lease. A state is one byte. Each value from [`EXPIRED`] on stands for a [`LossReason`].

use crate::error::LossReason;

pub(super) const HELD: u8 = 0;
/// A renewal has failed, but the grant is still held.
pub(super) const ENDANGERED: u8 = 1;
/// The last guard was released or dropped. Renewals stop, and losses are no longer reported.
pub(super) const ENDED: u8 = 2;
pub(super) const EXPIRED: u8 = 3;
pub(super) const TAKEN: u8 = 4;
pub(super) const MAX_HOLD: u8 = 5;
pub(super) const FORCED: u8 = 6;
pub(super) const SHUT_DOWN: u8 = 7;
pub(super) const SESSION_ENDED: u8 = 8;

/// Returns the state of a lease that is lost for `reason`.
pub(super) fn code(reason: LossReason) -> u8 {
    match reason {
        LossReason::Expired => EXPIRED,
        LossReason::Taken => TAKEN,
        LossReason::MaxHold => MAX_HOLD,
        LossReason::Forced => FORCED,
        LossReason::ShutDown => SHUT_DOWN,
        LossReason::SessionEnded => SESSION_ENDED,
    }
}

/// Returns why a lease in this state is lost, or `None` if it is not lost.
pub(super) fn reason(code: u8) -> Option<LossReason> {
    match code {
        EXPIRED => Some(LossReason::Expired),
        TAKEN => Some(LossReason::Taken),
        MAX_HOLD => Some(LossReason::MaxHold),
        FORCED => Some(LossReason::Forced),
        SHUT_DOWN => Some(LossReason::ShutDown),
        SESSION_ENDED => Some(LossReason::SessionEnded),
        _ => None,
    }
}
