//! The constants that the scripts share with Rust.
//!
//! Each constant is defined once, in Rust. A script uses the constant by its name in capitals, and lists the name in
//! its header under `Constants`. [`inject`] replaces the names by the values before a script is loaded. Definitions at
//! the top of the script would have the same effect. But each run would then cost as much as one more command, because
//! every function of the script would capture the names.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::backend::WAITER_LEASE;
use crate::backend::redis::keyspace::{CHANNEL, HELD_CHANNEL};
use crate::owner::Owner;

/// How long the server keeps a queue after its last heartbeat. This time is far longer than a waiter's lease.
const QUEUE_TTL: Duration = Duration::from_secs(60);
/// The number of leading digits that are equal in all tickets of the same 10 s. A ticket has 16 digits until the year
/// 2286. In each span of 10 s, the first claim that queues sets the expiry of the queue to [`QUEUE_TTL`] again.
const SPAN_LEN: u64 = 9;

/// The maximum number of bytes that a script reads from a key. The value of a lock is shorter. Data of another program
/// may have any length, and the server could not serve other clients while a script reads all of the data.
const VALUE_LEN: u64 = 4_096;

/// The byte after the owner token in the value of an exclusive holder, if a claim is queued. If no claim is queued, the
/// byte is a space. See "The mark" in `protocol.md`.
pub(crate) const MARK: &str = "!";

/// The length of `<fencing token> <owner token>`. A fencing token has 16 digits until the year 2286.
const FENCE_LEN: u64 = 16 + 1 + Owner::TOKEN_LEN as u64;

/// A constant of the scripts: its name, and its value in Lua.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constant(&'static str, Value);

#[derive(Clone, Copy, Debug)]
enum Value {
    Number(u64),
    /// A number in quotation marks, for the arguments of commands. If a script passes a number, the server must first
    /// convert it to text.
    Argument(u64),
    Text(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Argument(number) => write!(f, "'{number}'"),
            Self::Text(text) => write!(f, "'{text}'"),
        }
    }
}

impl Constant {
    pub(crate) const fn number(name: &'static str, value: u64) -> Self {
        Self(name, Value::Number(value))
    }

    /// Creates a text constant. `value` must not contain a quotation mark or a backslash.
    pub(crate) const fn text(name: &'static str, value: &'static str) -> Self {
        Self(name, Value::Text(value))
    }

    const fn argument(name: &'static str, value: u64) -> Self {
        Self(name, Value::Argument(value))
    }
}

/// The constants of all scripts.
const SHARED: &[Constant] = &[
    Constant::number("WAITER_LEASE", WAITER_LEASE.as_millis() as u64),
    Constant::argument("WAITER_LEASE_TEXT", WAITER_LEASE.as_millis() as u64),
    Constant::argument("QUEUE_TTL", QUEUE_TTL.as_millis() as u64),
    Constant::number("SPAN_LEN", SPAN_LEN),
    Constant::number("TOKEN_LEN", Owner::TOKEN_LEN as u64),
    Constant::text("MARK", MARK),
    Constant::argument("MARK_AT", Owner::TOKEN_LEN as u64),
    Constant::number("FENCE_LEN", FENCE_LEN),
    Constant::number("PROCESS_LEN", Owner::PROCESS_LEN as u64),
    // Two owners can hand off to each other if their tokens have the same process digits and the same next digit.
    Constant::number("HANDOFF_LEN", Owner::PROCESS_LEN as u64 + 1),
    Constant::number("VALUE_LEN", VALUE_LEN),
    Constant::argument("VALUE_END", VALUE_LEN - 1),
    Constant::text("CHANNEL", CHANNEL),
    Constant::text("HELD_CHANNEL", HELD_CHANNEL),
];

/// The text of a script as in its files, with the names of constants instead of their values.
#[derive(Debug)]
pub(crate) struct Source {
    text: &'static str,
    /// The constants that only the scripts in the same folder use.
    more: &'static [Constant],
    /// The text with the values. Every new connection loads all scripts, so a process creates this text only once.
    injected: OnceLock<String>,
}

impl Source {
    pub(crate) const fn new(text: &'static str, more: &'static [Constant]) -> Self {
        Self { text, more, injected: OnceLock::new() }
    }

    /// Returns the text with the values of the constants, which is sent to the server.
    pub(crate) fn text(&self) -> &str {
        self.injected.get_or_init(|| inject(self.text, self.more))
    }
}

/// Returns the text of a script with the values of its constants.
fn inject(text: &str, more: &[Constant]) -> String {
    let mut injected = String::with_capacity(text.len());
    for (word, between) in words(text) {
        match SHARED.iter().chain(more).find(|Constant(name, _)| *name == word) {
            Some(Constant(_, value)) => injected.push_str(&value.to_string()),
            None => injected.push_str(word),
        }
        injected.push_str(between);
    }
    injected
}

/// Splits a text into words. Each word comes with the characters between it and the next word.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let next = rest[word..].find(is_word).map_or(rest.len(), |at| word + at);
        let parts = (&rest[..word], &rest[word..next]);
        rest = &rest[next..];
        (!parts.0.is_empty() || !parts.1.is_empty()).then_some(parts)
    })
}

// Needs the feature `redlock`: the tests read all scripts, and the scripts of the voters use constants of that feature.
#[cfg(all(test, feature = "redlock"))]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::backend::redlock;

    fn constants() -> impl Iterator<Item = &'static Constant> {
        SHARED.iter().chain(redlock::CONSTANTS)
    }

    /// Collects every file with this extension in a folder and its subfolders.
    fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                files(&path, ending, found);
            } else if path.extension().is_some_and(|of| of == ending) {
                found.push(path);
            }
        }
    }

    /// Returns the scripts: file name, header, and the code without comments.
    fn scripts() -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend"), "lua", &mut found);
        assert!(found.len() >= 20, "{found:?}");
        let parts = |path: &PathBuf| {
            let text = fs::read_to_string(path).expect("text");
            let header = text.trim_start().lines().take_while(|line| line.starts_with("--"));
            let code = text.lines().map(|line| line.split("--").next().unwrap_or_default());
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, header.collect::<Vec<_>>().join("\n"), code.collect::<Vec<_>>().join("\n"))
        };
        found.iter().map(parts).collect()
    }

    /// Returns the words in capitals in some code, outside of quotation marks.
    fn capitals(code: &str) -> BTreeSet<&str> {
        let bare = code.split('\'').step_by(2);
        let words = bare.flat_map(|part| words(part).map(|(word, _)| word));
        let capitals = |word: &&str| {
            word.len() > 1
                && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                && word.contains(char::is_alphabetic)
        };
        words.filter(capitals).collect()
    }

    #[test]
    fn no_script_repeats_the_value_of_a_constant() {
        for (file, _, code) in scripts() {
            for Constant(name, value) in constants() {
                let repeats = match value {
                    Value::Number(number) | Value::Argument(number) => {
                        let number = number.to_string();
                        words(&code).any(|(word, _)| word == number)
                    }
                    Value::Text(text) => code.contains(text),
                };
                assert!(!repeats, "{file} writes the value of {name}");
            }
        }
    }

    #[test]
    fn every_name_in_capitals_is_defined_and_every_constant_is_used() {
        let mut unused: BTreeSet<&str> = constants().map(|Constant(name, _)| *name).collect();
        for (file, header, code) in scripts() {
            for name in capitals(&code) {
                let local = code.lines().any(|line| {
                    let names =
                        line.trim_start().strip_prefix("local ").and_then(|line| line.split('=').next());
                    names.is_some_and(|names| names.split(',').any(|of| of.trim() == name))
                });
                if local || ["KEYS", "ARGV", "REDIS_VERSION_NUM"].contains(&name) {
                    continue;
                }
                assert!(constants().any(|Constant(of, _)| *of == name), "nobody defines {name} of {file}");
                let listed = header.split_once("Constants").is_some_and(|(_, list)| list.contains(name));
                assert!(listed, "the header of {file} does not list {name}");
                unused.remove(name);
            }
        }
        assert!(unused.is_empty(), "no script uses {unused:?}");
    }

    #[test]
    fn whole_names_are_replaced_by_values() {
        assert_eq!(inject("return 1", &[]), "return 1");
        let text = "-- é WAITER_LEASE\nreturn {WAITER_LEASE, QUEUE_TTL, #CHANNEL, MINE, MINE_2, '{WAITER_LEASE_TEXT'}";
        let expected = "-- é 2000\nreturn {2000, '60000', #'lock:wake:', 7, MINE_2, '{'2000''}";
        assert_eq!(inject(text, &[Constant::number("MINE", 7)]), expected);
    }
}
