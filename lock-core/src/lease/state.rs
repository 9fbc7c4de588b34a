//! The states of a hold, one byte; those from [`EXPIRED`] on are a [`LossReason`].

use crate::error::LossReason;

pub(super) const HELD: u8 = 0;
/// Renewals are late; still ours.
pub(super) const ENDANGERED: u8 = 1;
/// The last guard is gone; renewals end, losses are not told any more.
pub(super) const ENDED: u8 = 2;
pub(super) const EXPIRED: u8 = 3;
pub(super) const TAKEN: u8 = 4;
pub(super) const MAX_HOLD: u8 = 5;
pub(super) const FORCED: u8 = 6;
pub(super) const SHUT_DOWN: u8 = 7;
pub(super) const SESSION_ENDED: u8 = 8;

/// The state of a hold that is lost for this reason.
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

/// Why a hold in this state is lost, if it is.
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
