//! Defines the states of a lease. A state is one byte. Each value above [`ENDED`] stands for a [`LossReason`].

use crate::error::LossReason;

pub(super) const HELD: u8 = 0;
/// A renewal has failed, but the grant is still held.
pub(super) const ENDANGERED: u8 = 1;
/// The last guard was released or dropped. Renewals stop, and losses are no longer reported.
pub(super) const ENDED: u8 = 2;

/// Returns the state of a lease that is lost for `reason`.
pub(super) fn code(reason: LossReason) -> u8 {
    ENDED + 1 + reason as u8
}

/// Returns why a lease in this state is lost, or `None` if it is not lost.
pub(super) fn reason(code: u8) -> Option<LossReason> {
    LossReason::ALL.get(usize::from(code.checked_sub(ENDED + 1)?)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_loss_is_read_back_and_no_other_state_has_one() {
        for loss in LossReason::ALL {
            assert_eq!(reason(code(loss)), Some(loss));
        }
        let lost: Vec<_> = (0..=u8::MAX).filter(|code| reason(*code).is_some()).collect();
        assert_eq!(lost, LossReason::ALL.map(code));
        assert!(lost.iter().all(|code| *code > ENDED));
    }
}
