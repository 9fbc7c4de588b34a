//! The scripts of a voter: the bootstrap, and the scripts that only the bootstrap loads.

use super::state::{QUARANTINE_FACTOR, QUARANTINE_MARGIN};
use crate::backend::redis::scripts::constants::{Constant, Source};

/// The key of the marker, in which the bootstrap records the run of the server. No lock may have this name.
pub(super) const MARKER: &str = "lock:voter";

pub(super) static BOOT: Source = Source::new(include_str!("scripts/boot.lua"), CONSTANTS);
// The order matters. free.lua runs before the gate, so it checks the marker itself. The gate checks all requests that
// free.lua did not grant. The script of a single server runs only after the gate.
pub(super) static ONE: Source = Source::new(
    concat!(
        include_str!("scripts/free.lua"),
        include_str!("../../redis/scripts/take.lua"),
        include_str!("scripts/gate.lua"),
        include_str!("../../redis/scripts/acquire.lua"),
        include_str!("../../redis/scripts/take.lua"),
        include_str!("../../redis/scripts/acquire_held.lua"),
        include_str!("../../redis/scripts/lib.lua"),
        include_str!("../../redis/scripts/acquire_taken.lua"),
    ),
    CONSTANTS,
);
pub(super) static ALL: Source = Source::new(
    concat!(
        include_str!("scripts/gate.lua"),
        include_str!("../../redis/scripts/lib.lua"),
        include_str!("../../redis/scripts/acquire_all.lua"),
    ),
    CONSTANTS,
);

pub(super) const RUN_ID_LEN: usize = 40;

/// The constants that only the scripts of this folder use.
pub(crate) const CONSTANTS: &[Constant] = &[
    Constant::text("VOTER_MARKER", MARKER),
    Constant::number("RUN_ID_LEN", RUN_ID_LEN as u64),
    Constant::number("QUARANTINE_FACTOR", QUARANTINE_FACTOR),
    Constant::number("QUARANTINE_MARGIN", QUARANTINE_MARGIN),
];

/// Returns the text of the bootstrap in the form that is sent to a server.
pub(crate) fn boot_script() -> &'static str {
    BOOT.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_say_what_they_take_and_why_they_are_atomic() {
        let parts = [include_str!("scripts/gate.lua"), include_str!("scripts/free.lua")];
        for text in [BOOT.text()].into_iter().chain(parts) {
            let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
            for word in ["KEYS", "ARGV", "Returns", "Atomic because"] {
                assert!(header.contains(word), "{header} lacks {word}");
            }
        }
    }
}
