//! Compares the output of each command, as text and as JSON, with the files in `golden/`. Values that differ from run
//! to run are masked. `LOCKCTL_GOLDEN=write` writes the files.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::bed::Bed;
use crate::ctl::{Ctl, Said, until};

/// The JSON names of values that differ from run to run.
const VOLATILE: [&str; 12] = [
    "host",
    "pid",
    "since_ms",
    "held_since_ms",
    "remaining_ms",
    "waited_ms",
    "fencing_token",
    "round_trip_us",
    "cycles",
    "per_second",
    "p50_us",
    "p99_us",
];

/// A record of command lines and their outputs.
struct Record {
    name: &'static str,
    text: String,
}

impl Record {
    fn new(name: &'static str) -> Self {
        Self { name, text: String::new() }
    }

    fn add(&mut self, arguments: &[&str], said: &Said) {
        let line = arguments.iter().map(|argument| masked(argument)).collect::<Vec<_>>().join(" ");
        self.text += &format!("$ lockctl {line}\n");
        for (text, mark) in [(&said.out, ""), (&said.err, "! ")] {
            text.lines().for_each(|line| self.text += &format!("{mark}{}\n", masked(line)));
        }
        if said.code != 0 {
            self.text += &format!("exit code {}\n", said.code);
        }
    }

    /// Runs a command line twice and records both outputs, as text and as JSON.
    fn both(&mut self, ctl: &Ctl, arguments: &[&str]) {
        for json in [&[][..], &["--json"]] {
            let arguments = [json, arguments].concat();
            let said = ctl.run(&arguments);
            self.add(&arguments, &said);
        }
    }

    fn compare(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lockctl/golden").join(self.name);
        if std::env::var_os("LOCKCTL_GOLDEN").is_some() {
            fs::write(&path, &self.text).expect("a file");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            self.text == expected,
            "{} is\n{expected}\nand lockctl prints\n{}\nif that is right: LOCKCTL_GOLDEN=write",
            self.name,
            self.text
        );
    }
}

fn masked(line: &str) -> String {
    if let Ok(mut value) = serde_json::from_str::<Value>(line)
        && value.is_object()
    {
        mask_values(&mut value);
        return value.to_string();
    }
    masked_text(line)
}

fn masked_text(text: &str) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let text = text.replace(&format!("{host} pid "), "<host> pid ");
    // The width of a column depends on its contents, so runs of spaces become one space.
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let mask = |at: usize, word: &str| {
        // These numbers may have few digits: `pid 7`, `62 us`, `9 locks a second`.
        let is_figure =
            at > 0 && words[at - 1] == "pid" || matches!(words.get(at + 1), Some(&("us" | "locks")));
        if is_figure && word.parse::<u64>().is_ok() { "<number>".to_owned() } else { masked_word(word) }
    };
    let text = words.iter().enumerate().map(|(at, word)| mask(at, word)).collect::<Vec<_>>().join(" ");
    // The output omits a wait of zero length, so the record omits every wait.
    text.replace("; waited <time>", "")
}

fn mask_values(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if VOLATILE.contains(&name.as_str()) && !value.is_null() {
                    *value = format!("<{name}>").into();
                } else {
                    mask_values(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(mask_values),
        Value::String(text) => *text = masked_text(text),
        _ => {}
    }
}

/// Masks ids, tokens, times and other numbers of more than two digits.
fn masked_word(word: &str) -> String {
    let core = word.trim_end_matches([',', ';', ':', ')']);
    let end = &word[core.len()..];
    let is_hex = core.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let unit = core.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let mask = match (is_hex, core.len()) {
        (true, 40) => "<id>",
        (true, 48) => "<token>",
        _ if unit.len() < core.len() && ["s", "ms", "us", "µs", "m"].contains(&unit) => "<time>",
        _ if unit.is_empty() && core.len() > 2 => "<number>",
        _ if core.starts_with("127.0.0.1:") => "<address>",
        _ => return word.to_owned(),
    };
    format!("{mask}{end}")
}

#[test]
fn words_are_masked() {
    for (word, mask) in [
        ("order:42", "order:42"),
        ("1.2ms;", "<time>;"),
        ("12s,", "<time>,"),
        ("64", "64"),
        ("1764375671000", "<number>"),
        ("0123456789abcdef0123456789abcdef01234567", "<id>"),
        ("exclusive", "exclusive"),
        ("", ""),
    ] {
        assert_eq!(masked_word(word), mask, "{word}");
    }
    assert_eq!(masked(r#"{"pid":7,"key":"k"}"#), r#"{"key":"k","pid":"<pid>"}"#);
}

#[test]
fn a_lock_that_is_held() {
    let bed = Bed::redis();
    let ctl = &bed.ctl;
    let mut record = Record::new("held.txt");
    let arguments = ["hold", "order:42", "--label", "night run"];
    let held = ctl.start(&arguments);
    ctl.until_held("order:42", 1);
    let waits = ctl.start(&["run", "order:42", "--label", "next", "--", "true"]);
    ctl.until_waited_for("order:42", 1);
    for look in [
        &["list"][..],
        &["list", "--older", "1h"],
        &["show", "order:42"],
        &["wait", "order:42", "--wait", "20ms"],
        &["run", "order:42", "-n", "--", "true"],
        &["acquire", "order:42", "-n", "--ttl", "10s"],
        &["force-release", "order:42", "--reason", "stuck"],
    ] {
        record.both(ctl, look);
    }
    held.signal(Signal::TERM);
    record.add(&arguments, &held.end());
    assert_eq!(waits.end().code, 0);
    let held = ctl.start(&["--json", "hold", "order:42"]);
    ctl.until_held("order:42", 1);
    let force = ["force-release", "order:42", "--reason", "stuck", "--yes"];
    record.add(&force, &ctl.run(&force));
    record.add(&["--json", "hold", "order:42"], &held.end());
    record.compare();
}

#[test]
fn a_lock_that_is_free() {
    let bed = Bed::redis();
    let ctl = &bed.ctl;
    let mut record = Record::new("free.txt");
    for look in [
        &["list"][..],
        &["show", "k"],
        &["wait", "k"],
        &["available", "k", "--permits", "3"],
        &["leader", "k"],
        &["force-release", "k", "--reason", "stuck", "--yes"],
        &["run", "k", "--", "sh", "-c", "exit 3"],
        &["run", "k", "--ttl", "5", "--", "true"],
        &["--url", "foo://x", "list"],
        &["ping"],
        &["doctor"],
        &["bench", "--time", "100ms"],
    ] {
        record.both(ctl, look);
    }
    record.compare();
}

#[test]
fn a_lock_by_its_token() {
    let bed = Bed::redis();
    let ctl = &bed.ctl;
    let mut record = Record::new("token.txt");
    for json in [&[][..], &["--json"]] {
        let mut run = |arguments: &[&str]| {
            let arguments = [json, arguments].concat();
            let said = ctl.run(&arguments);
            record.add(&arguments, &said);
            said
        };
        let said = run(&["acquire", "k", "--ttl", "10m"]);
        let printed = serde_json::from_str::<Value>(&said.out);
        let token = printed
            .map_or(said.out.trim().to_owned(), |value| value["token"].as_str().expect("text").to_owned());
        run(&["renew", "k", "--ttl", "10m", "--token", &token]);
        run(&["release", "k", "--token", &token]);
        run(&["renew", "k", "--ttl", "10m", "--token", &token]);
        run(&["release", "k", "--token", &token]);
    }
    record.compare();
}

#[test]
fn pictures_that_follow_each_other() {
    let bed = Bed::redis();
    let mut record = Record::new("top.txt");
    let held = bed.ctl.start(&["hold", "order:42"]);
    bed.ctl.until_held("order:42", 1);
    for arguments in [&["top", "--every", "1h"][..], &["--json", "top", "--every", "1h"]] {
        let top = bed.ctl.start(arguments);
        until("a picture", || top.printed().contains("order:42"));
        top.signal(Signal::INT);
        record.add(arguments, &top.end());
    }
    held.signal(Signal::TERM);
    held.end();
    record.compare();
}

#[test]
fn the_help_of_each_command() {
    let ctl = Ctl(String::new());
    let mut record = Record::new("help.txt");
    let commands = "run hold acquire renew release leader wait list show top available force-release ping bench migrate sql completions";
    record.add(&["--help"], &ctl.run(&["--help"]));
    for command in commands.split(' ') {
        let arguments = [command, "--help"];
        record.add(&arguments, &ctl.run(&arguments));
    }
    record.compare();
}
