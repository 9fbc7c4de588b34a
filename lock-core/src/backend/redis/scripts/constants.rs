//! The constants that the scripts share with Rust.
//!
//! Each is written once, in Rust. A script uses it by its name in capitals, and lists it in its header under `Constants`.
//! [`inject`] writes one line in front of the text of a script, which defines the names that it uses:
//! `local WAITER_LEASE, TOKEN_LEN = 2000, 48`.

use std::fmt::Write;
use std::time::Duration;

use crate::backend::WAITER_LEASE;
use crate::backend::redis::keyspace::{CHANNEL, HELD_CHANNEL};
use crate::owner::Owner;

/// How long a queue outlives the last heartbeat in it; far longer than a waiter's lease.
const QUEUE_TTL: Duration = Duration::from_secs(60);
/// A queue whose ttl is below this gets [`QUEUE_TTL`] anew; one look at the ttl costs less than two writes.
const QUEUE_TTL_LEAST: Duration = Duration::from_secs(45);

/// A constant of the scripts: its name, and its value in Lua.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constant(&'static str, Value);

#[derive(Clone, Copy, Debug)]
enum Value {
    Number(u64),
    Text(&'static str),
}

impl Constant {
    pub(crate) const fn number(name: &'static str, value: u64) -> Self {
        Self(name, Value::Number(value))
    }

    /// A text without quotation marks and backslashes.
    pub(crate) const fn text(name: &'static str, value: &'static str) -> Self {
        Self(name, Value::Text(value))
    }

    const fn millis(name: &'static str, value: Duration) -> Self {
        Self::number(name, value.as_millis() as u64)
    }
}

/// The constants of all scripts.
const SHARED: &[Constant] = &[
    Constant::millis("WAITER_LEASE", WAITER_LEASE),
    Constant::millis("QUEUE_TTL", QUEUE_TTL),
    Constant::millis("QUEUE_TTL_LEAST", QUEUE_TTL_LEAST),
    Constant::number("TOKEN_LEN", Owner::TOKEN_LEN as u64),
    Constant::number("PROCESS_LEN", Owner::PROCESS_LEN as u64),
    // Owners whose grants may be handed off to each other agree in their process and the character behind it.
    Constant::number("HANDOFF_LEN", Owner::PROCESS_LEN as u64 + 1),
    Constant::text("CHANNEL", CHANNEL),
    Constant::text("HELD_CHANNEL", HELD_CHANNEL),
];

/// Returns the text of a script with the definition of its constants in front. `more` are those of its folder alone.
pub(crate) fn inject(text: &str, more: &[Constant]) -> String {
    let (mut names, mut values) = (String::new(), String::new());
    for Constant(name, value) in SHARED.iter().chain(more).filter(|Constant(name, _)| text.contains(name)) {
        let comma = if names.is_empty() { "" } else { ", " };
        let _ = write!(names, "{comma}{name}");
        let _ = match value {
            Value::Number(number) => write!(values, "{comma}{number}"),
            Value::Text(text) => write!(values, "{comma}'{text}'"),
        };
    }
    if names.is_empty() { text.to_owned() } else { format!("local {names} = {values}\n{text}") }
}

// With the voters, whose scripts are among those that it reads.
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

    /// Every file with the ending below a folder.
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

    /// The scripts: file name, header, and the code without comments.
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

    /// The words of some code that are in capitals, outside of quotation marks.
    fn capitals(code: &str) -> BTreeSet<&str> {
        let bare = code.split('\'').step_by(2);
        let words = bare.flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
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
                    Value::Number(number) => {
                        let number = number.to_string();
                        code.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == number)
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
    fn a_script_gets_the_constants_that_it_names() {
        assert_eq!(inject("return 1", &[]), "return 1");
        let text = inject("return {WAITER_LEASE, CHANNEL, MINE}", &[Constant::number("MINE", 7)]);
        let expected =
            "local WAITER_LEASE, CHANNEL, MINE = 2000, 'lock:wake:', 7\nreturn {WAITER_LEASE, CHANNEL, MINE}";
        assert_eq!(text, expected);
    }
}
