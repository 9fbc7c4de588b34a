//! Defines [`Owner`], the secret token of one grant.

use std::fmt;
use std::io::Write;

/// The identity of one grant. The identity consists of 128 random bits, which all owners of one manager share, and a
/// counter.
///
/// An owner is created before the first attempt, so that a grant can be released by its token even if the answer was
/// lost. The token is a secret between the process and the store, so `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    pub(super) process: u128,
    pub(super) counter: u64,
}

/// The bit of the counter that marks *strict* owners, whose grants are never handed off inside their process. In the
/// token of a strict owner, the 33rd character is 8 or more.
pub(super) const STRICT: u64 = 1 << 63;

impl Owner {
    /// The length of [`Owner::token`] in bytes.
    pub const TOKEN_LEN: usize = 48;

    /// The length of the first part of a token, which is the [process](Self::process).
    pub(crate) const PROCESS_LEN: usize = 32;

    /// Returns the token in the format of the store: 48 lower-case hexadecimal digits, of which the first 32 are the
    /// process.
    #[must_use]
    pub fn token(&self) -> OwnerToken {
        let mut text = [0; Self::TOKEN_LEN];
        // The text has exactly the length of the token, so the write cannot fail.
        let _ = write!(&mut text[..], "{:032x}{:016x}", self.process, self.counter);
        OwnerToken(text)
    }
}

impl Owner {
    /// Returns the random part, which all owners of one manager share. A store uses it as the address of its
    /// notifications; see [`Backend::attach`](crate::backend::Backend::attach).
    #[must_use]
    pub const fn process(&self) -> u128 {
        self.process
    }

    /// Returns whether a grant of `self` may be handed off to `other` inside their process, without a request to the
    /// store. This requires that both owners belong to the same manager, and that neither is strict.
    #[must_use]
    pub const fn may_hand_off_to(&self, other: &Self) -> bool {
        self.process == other.process && (self.counter | other.counter) & STRICT == 0
    }

    /// Returns the owner with this [token](Self::token), or `None` if the text is not a token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        let (process, counter) = token.split_at_checked(Self::PROCESS_LEN)?;
        let process = u128::from_str_radix(process, 16).ok()?;
        let owner = Self { process, counter: u64::from_str_radix(counter, 16).ok()? };
        // The parser of numbers accepts other texts too: a sign, and upper case.
        (owner.token().as_str() == token).then_some(owner)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(..)")
    }
}

/// The token of an [`Owner`] in the format of the store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnerToken([u8; Owner::TOKEN_LEN]);

impl OwnerToken {
    /// Returns the token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("BUG: hexadecimal digits are ASCII")
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_from_its_token_and_from_nothing_else() {
        let owner = Owner { process: u128::MAX - 0x1234_5678_9abc_def0_1234, counter: 0xfe_dcba_9876_5432 };
        let token = owner.token();
        assert_eq!(Owner::from_token(token.as_str()), Some(owner));
        let zero = Owner { process: 0, counter: 0 };
        assert_eq!(Owner::from_token(&"0".repeat(Owner::TOKEN_LEN)), Some(zero));
        let upper = token.as_str().to_ascii_uppercase();
        let longer = format!("{}0", token.as_str());
        let signed = format!("+{}", &token.as_str()[1..]);
        for text in ["", &token.as_str()[1..], &longer, &signed, &upper, &"g".repeat(48), &"é".repeat(24)] {
            assert_eq!(Owner::from_token(text), None, "{text}");
        }
    }

    #[test]
    fn no_text_shows_the_token() {
        let owners = crate::owner::OwnerSource::new().expect("random bytes");
        let (owner, key) = (owners.mint(), crate::key::Key::new("k").expect("a key"));
        let record = crate::owner::OwnerRecord::new(
            std::sync::Arc::new(crate::owner::Identity::of_this_process("")),
            None,
        );
        let claim = crate::backend::Claim::new(key, owner, std::time::Duration::from_secs(1), record);
        let check = crate::backend::LeaseCheck::new("SELECT 1", &claim);
        for text in
            [format!("{owner:?}"), format!("{:?}", owner.token()), format!("{claim:?}"), format!("{check:?}")]
        {
            assert!(!text.contains(owner.token().as_str()), "{text}");
            assert!(!text.contains(&owner.process.to_string()), "{text}");
        }
    }
}
