//! The scripts, and the SHA-1 that identifies each of them on the server.

use ::redis::{Cmd, Value};

use super::constants::Source;
use crate::backend::redis::error::Failure;
use crate::backend::redis::keyspace::Keyspace;
use crate::backend::redis::slot;

/// A script of this backend. The header of its file documents its arguments and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Acquire,
    AcquireAll,
    Heartbeat,
    Fence,
    Renew,
    Release,
    Downgrade,
    Latch,
    List,
    ForceRelease,
}

/// Joins a script and the library that it uses. A script with a hot path has several parts. The library is before the
/// last part, because defining the functions of the library costs as much as a command.
macro_rules! script {
    ($text:literal) => {
        Source::new(concat!(include_str!("lib.lua"), include_str!($text)), &[])
    };
    ($($hot:literal),+; $rest:literal) => {
        Source::new(concat!($(include_str!($hot),)+ include_str!("lib.lua"), include_str!($rest)), &[])
    };
}

/// The scripts, in the order of [`Script::ALL`].
static SOURCES: [Source; Script::ALL.len()] = [
    script!("acquire.lua", "take.lua", "acquire_held.lua"; "acquire_taken.lua"),
    script!("acquire_all.lua"),
    script!("heartbeat.lua"),
    script!("fence.lua"),
    script!("renew.lua"; "renew_shared.lua"),
    script!("release.lua"; "release_queued.lua"),
    script!("downgrade.lua"),
    script!("latch.lua"),
    script!("list.lua"),
    script!("force_release.lua"),
];

/// The text before each script on a Cluster node, except the renewal.
static CLUSTER: Source = Source::new(include_str!("cluster.lua"), &[]);

impl Script {
    pub(crate) const ALL: [Self; 10] = [
        Self::Acquire,
        Self::AcquireAll,
        Self::Heartbeat,
        Self::Fence,
        Self::Renew,
        Self::Release,
        Self::Downgrade,
        Self::Latch,
        Self::List,
        Self::ForceRelease,
    ];

    pub(crate) fn text(self) -> &'static str {
        SOURCES[self as usize].text()
    }

    /// Returns the text that precedes the script on a Cluster node. A renewal has no such text, and names only the
    /// locks and not their helper keys. While a slot is being moved, a renewal cannot wait until the helper keys have
    /// moved.
    fn preamble(self, keyspace: Keyspace) -> &'static str {
        match (keyspace, self) {
            (Keyspace::Whole, _) | (Keyspace::Slots, Self::Renew) => "",
            (Keyspace::Slots, _) => CLUSTER.text(),
        }
    }

    /// Returns `SCRIPT LOAD` of this script.
    pub(crate) fn load(self, keyspace: Keyspace) -> Cmd {
        let text = [self.preamble(keyspace), self.text()].concat();
        let mut command = Cmd::with_capacity(3, text.len() + 16);
        command.arg("SCRIPT").arg("LOAD").arg(text);
        command
    }

    /// Returns the keys that a call for these locks must name on a Cluster node: see `scripts/cluster.lua`.
    fn declared<'a>(self, locks: impl Iterator<Item = &'a str>) -> Vec<String> {
        if self == Self::Renew {
            return locks.map(str::to_owned).collect();
        }
        let (mut keys, mut last) = (Vec::new(), "");
        for lock in locks {
            keys.push(lock.to_owned());
            keys.extend(slot::helpers(lock));
            last = lock;
        }
        keys.push(slot::channel(slot::of_key(last)));
        keys
    }
}

/// The SHA-1 of every script, as returned by the server.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    names: [[u8; 40]; Script::ALL.len()],
    keyspace: Keyspace,
}

impl Scripts {
    /// Reads the answers to [`Script::load`], in the order of [`Script::ALL`].
    pub(crate) fn of_answers(answers: &[Value], keyspace: Keyspace) -> Result<Self, Failure> {
        let mut names = [[0; 40]; Script::ALL.len()];
        for (at, sha) in names.iter_mut().enumerate() {
            let answer = answers.get(at).unwrap_or(&Value::Nil);
            match answer {
                Value::BulkString(text) if text.len() == sha.len() => sha.copy_from_slice(text),
                Value::ServerError(error) => return Err(Failure::of_reply(error)),
                other => return Err(Failure::unexpected(other)),
            }
        }
        Ok(Self { names, keyspace })
    }

    /// Returns `EVALSHA` of a script on these locks. Reserves space for `args` more arguments, which have `bytes` bytes
    /// in total.
    pub(crate) fn call<'a>(
        &self,
        script: Script,
        locks: impl Iterator<Item = &'a str> + Clone,
        args: usize,
        bytes: usize,
    ) -> Cmd {
        if self.keyspace == Keyspace::Slots {
            let keys = script.declared(locks);
            return self.evalsha(script, keys.iter().map(String::as_str), args, bytes);
        }
        self.evalsha(script, locks, args, bytes)
    }

    fn evalsha<'a>(
        &self,
        script: Script,
        keys: impl Iterator<Item = &'a str> + Clone,
        args: usize,
        bytes: usize,
    ) -> Cmd {
        let sha = &self.names[script as usize];
        let (count, length) =
            keys.clone().fold((0_usize, 0), |(count, bytes), key| (count + 1, bytes + key.len() + 8));
        let mut command = Cmd::with_capacity(3 + count + args, 16 + sha.len() + length + bytes);
        command.arg("EVALSHA").arg(sha.as_slice()).arg(count);
        for key in keys {
            command.arg(key);
        }
        command
    }

    pub(crate) fn keyspace(&self) -> Keyspace {
        self.keyspace
    }

    /// Returns `SCRIPT LOAD` of a script, for this server.
    pub(crate) fn load(&self, script: Script) -> Cmd {
        script.load(self.keyspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_takes_and_why_it_is_atomic() {
        let library = Source::new(include_str!("lib.lua"), &[]);
        for script in Script::ALL {
            let text = script.text().replacen(library.text(), "", 1);
            let header: String =
                text.trim_start().lines().take_while(|line| line.starts_with("--")).collect();
            for word in ["KEYS", "ARGV", "Returns", "Atomic because"] {
                assert!(header.contains(word), "{script:?} lacks {word}");
            }
        }
    }

    #[test]
    fn the_names_are_in_order() {
        let answers: Vec<Value> = (0..10).map(|n| Value::BulkString(vec![b'a' + n; 40])).collect();
        let scripts = Scripts::of_answers(&answers, Keyspace::Whole).expect("ten names");
        let command = scripts.call(Script::Release, ["a"].into_iter(), 2, 10).get_packed_command();
        let text = String::from_utf8(command).expect("ASCII");
        let expected = format!("*4\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n1\r\n$1\r\na\r\n", "f".repeat(40));
        assert_eq!(text, expected);
        assert!(Scripts::of_answers(&answers[..9], Keyspace::Whole).is_err());
    }

    /// If the keys were in several slots, a Cluster would refuse the call, or the script would fail midway.
    #[test]
    fn all_keys_of_a_call_are_in_one_slot() {
        let locks = ["order:42", "{order:42}", "x{order:42}y{z}"];
        let scripts = |script: Script| script.declared(locks.into_iter());
        assert_eq!(scripts(Script::Renew), locks);
        for script in Script::ALL.into_iter().filter(|script| *script != Script::Renew) {
            let keys = scripts(script);
            assert_eq!(keys.len(), 5 * locks.len() + 1);
            assert!(keys.iter().all(|key| slot::of_key(key) == slot::of_key("order:42")), "{keys:?}");
        }
    }
}
