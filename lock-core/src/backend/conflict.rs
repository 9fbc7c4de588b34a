//! The error text for a key that is in use as another kind of lock.

use std::borrow::Cow;

use super::Mode;

/// The use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Lock(Mode),
    Latch,
}

impl Use {
    /// Reads the [code](Mode::code) of a mode, or `latch`.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(super) fn from_code(code: &str) -> Option<Self> {
        if code == "latch" { Some(Self::Latch) } else { Mode::from_code(code).map(Self::Lock) }
    }

    fn name(self) -> Cow<'static, str> {
        match self {
            Self::Lock(mode) => mode.name(),
            Self::Latch => "a count-down latch".into(),
        }
    }

    fn is_permit(self) -> bool {
        matches!(self, Self::Lock(Mode::Permit { .. }))
    }
}

/// Returns a text that names both uses and says what to do.
pub(super) fn in_use(which: &str, in_force: Use, asked: Use) -> String {
    let way_out = if in_force.is_permit() && asked.is_permit() {
        "the number changes once the old permits are released and nobody waits for another one: stop whoever asks for the \
         old number first, or name the key anew with the number, as in `pool:8`"
    } else {
        "use one kind of lock, with one number of permits, per key"
    };
    let (in_force, asked) = (in_force.name(), asked.name());
    format!("{which} is in use as {in_force} and was asked for as {asked}; {way_out}")
}
