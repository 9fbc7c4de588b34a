//! The scripts, and the names under which the server keeps them.

use ::redis::{Cmd, Value};

use super::error::Failure;

/// A script of this backend. Its header says what it takes and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Acquire,
    AcquireAll,
    Beat,
    Fence,
    Renew,
    Release,
    Keep,
    Downgrade,
    Latch,
    List,
    Evict,
}

/// A script and the library that it uses. One with a hot path is in two parts, with the library between them: to
/// define the functions costs as much as a command.
macro_rules! script {
    ($text:literal) => {
        concat!(include_str!("scripts/lib.lua"), include_str!(concat!("scripts/", $text)))
    };
    ($hot:literal, $rest:literal) => {
        concat!(
            include_str!(concat!("scripts/", $hot)),
            include_str!("scripts/lib.lua"),
            include_str!(concat!("scripts/", $rest))
        )
    };
}

impl Script {
    pub(super) const ALL: [Self; 11] = [
        Self::Acquire,
        Self::AcquireAll,
        Self::Beat,
        Self::Fence,
        Self::Renew,
        Self::Release,
        Self::Keep,
        Self::Downgrade,
        Self::Latch,
        Self::List,
        Self::Evict,
    ];

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Acquire => script!("acquire.lua", "acquire_taken.lua"),
            Self::AcquireAll => script!("acquire_all.lua"),
            Self::Beat => script!("beat.lua"),
            Self::Fence => script!("fence.lua"),
            Self::Renew => script!("renew.lua", "renew_shared.lua"),
            Self::Release => script!("release.lua", "release_queued.lua"),
            Self::Keep => script!("keep.lua"),
            Self::Downgrade => script!("downgrade.lua"),
            Self::Latch => script!("latch.lua"),
            Self::List => script!("list.lua"),
            Self::Evict => script!("evict.lua"),
        }
    }

    /// `SCRIPT LOAD` of this script.
    pub(super) fn load(self) -> Cmd {
        let mut command = Cmd::with_capacity(3, self.text().len() + 16);
        command.arg("SCRIPT").arg("LOAD").arg(self.text());
        command
    }
}

/// The SHA-1 of every script, as the server answered it.
#[derive(Clone, Debug)]
pub(super) struct Scripts([[u8; 40]; Script::ALL.len()]);

impl Scripts {
    /// Reads the answers to [`Script::load`], in the order of [`Script::ALL`].
    pub(super) fn of_answers(answers: &[Value]) -> Result<Self, Failure> {
        let mut scripts = [[0; 40]; Script::ALL.len()];
        for (at, sha) in scripts.iter_mut().enumerate() {
            let answer = answers.get(at).unwrap_or(&Value::Nil);
            match answer {
                Value::BulkString(text) if text.len() == sha.len() => sha.copy_from_slice(text),
                Value::ServerError(error) => return Err(Failure::of_reply(error)),
                other => return Err(Failure::unexpected(other)),
            }
        }
        Ok(Self(scripts))
    }

    /// `EVALSHA` of a script up to the number of keys; `args` and `bytes` say how much will be added.
    pub(super) fn call(&self, script: Script, keys: usize, args: usize, bytes: usize) -> Cmd {
        let sha = &self.0[script as usize];
        let mut command = Cmd::with_capacity(3 + args, 16 + sha.len() + bytes);
        command.arg("EVALSHA").arg(sha.as_slice()).arg(keys);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_takes_and_why_it_is_atomic() {
        for script in Script::ALL {
            let text = script.text().replacen(include_str!("scripts/lib.lua"), "", 1);
            let header: String =
                text.trim_start().lines().take_while(|line| line.starts_with("--")).collect();
            for word in ["KEYS", "ARGV", "Returns", "Atomic because"] {
                assert!(header.contains(word), "{script:?} lacks {word}");
            }
        }
    }

    #[test]
    fn the_names_are_in_order() {
        let answers: Vec<Value> = (0..11).map(|n| Value::BulkString(vec![b'a' + n; 40])).collect();
        let scripts = Scripts::of_answers(&answers).expect("eleven names");
        let command = scripts.call(Script::Release, 1, 2, 10).get_packed_command();
        let text = String::from_utf8(command).expect("ASCII");
        assert_eq!(text, format!("*3\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n1\r\n", "f".repeat(40)));
        assert!(Scripts::of_answers(&answers[..10]).is_err());
    }
}
