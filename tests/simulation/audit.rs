//! What is noticed on the servers themselves, request by request: who touches what.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::journal::Journal;
use crate::keyspace::Seen;
use crate::resp::Reply;

/// Keys as they were at one moment.
pub(crate) type Look = BTreeMap<Vec<u8>, Seen>;

/// A request, and the name of the script if it is one.
type Asked<'a> = (&'a [u8], &'a [Vec<u8>]);

/// The id that only the gated scripts have in their text.
const GATED: &str = "4f0c1b7e9a6d42c58e13d7b2605fa9c4";
const TOKEN: usize = 48;

/// Watches all servers of one world.
#[derive(Clone)]
pub(crate) struct Audit {
    journal: Journal,
    /// What the scripts are, by name.
    scripts: Rc<RefCell<BTreeMap<String, Script>>>,
    /// Whether a key is made by gated scripts alone.
    gated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Script {
    title: &'static str,
    acquires: bool,
    gated: bool,
}

/// How the scripts are told apart: by what their first lines say.
const TITLES: [(&str, &str); 8] = [
    ("-- Registers the life", "boot"),
    ("-- Grants a lock", "acquire"),
    ("-- Grants several locks", "acquire all"),
    ("-- Makes the fencing token", "fence"),
    ("-- Extends locks", "renew"),
    ("-- Frees a lock", "release"),
    ("-- Gives a lock up but", "keep"),
    ("-- Turns an exclusive", "downgrade"),
];

impl Audit {
    pub(crate) fn new(journal: Journal, gated: bool) -> Self {
        Self { journal, scripts: Rc::default(), gated }
    }

    /// A server was given this script. The name is that of what it runs, the text that of what the client sent.
    pub(crate) fn knows(&self, name: &str, text: &[u8]) {
        let mut scripts = self.scripts.borrow_mut();
        if scripts.contains_key(name) {
            return;
        }
        let text = String::from_utf8_lossy(text);
        let known = TITLES.iter().find(|(first, _)| text.contains(first));
        let title = known.map_or("script", |(_, title)| title);
        let script = Script { title, acquires: title.starts_with("acquire"), gated: text.contains(GATED) };
        scripts.insert(name.to_owned(), script);
    }

    fn script(&self, name: &[u8]) -> Option<Script> {
        self.scripts.borrow().get(std::str::from_utf8(name).ok()?).copied()
    }

    /// A request was run.
    pub(crate) fn ran(
        &self,
        server: &str,
        now: i64,
        (script, words): Asked<'_>,
        before: &Look,
        reply: &Reply,
    ) {
        let title = match self.script(script) {
            Some(script) => script.title,
            None if words[0].eq_ignore_ascii_case(b"SET") => "set",
            // Signs of life and greetings: they are many, and change nothing.
            None => return,
        };
        let owner = words.iter().find_map(|word| owner_of(word));
        if let (Some(owner), "release" | "keep") = (owner, title) {
            self.journal.released(owner);
        }
        let owner = owner.map(|owner| self.journal.owner(owner));
        let holder =
            before.values().find_map(|seen| owner_of(&seen.text)).map(|owner| self.journal.owner(owner));
        self.journal.server(server, now, title, (owner, holder), reply);
    }

    /// What a request did to the keys that it named.
    pub(crate) fn changed(
        &self,
        server: &str,
        (script, words): Asked<'_>,
        now: i64,
        before: &Look,
        after: &Look,
    ) {
        let script = self.script(script);
        let broken = |what: String| self.journal.broken(format!("{server}: {what}"));
        let title = script.map_or("a command", |script| script.title);
        for (key, seen) in before.iter().filter(|(key, _)| is_lock(key)) {
            let Some(owner) = owner_of(&seen.text) else { continue };
            let named = words.iter().any(|word| word.starts_with(owner));
            if !named && after.get(key) != Some(seen) {
                let owner = self.journal.owner(owner);
                broken(format!("{title} changed what is owner {owner}'s without naming it"));
            }
        }
        for (key, seen) in after.iter().filter(|(key, _)| is_lock(key)) {
            if seen.expires.is_none() {
                broken(format!("{title} left a lock without an expiry"));
            }
            if before.contains_key(key) {
                continue;
            }
            if let Some(owner) = owner_of(&seen.text) {
                self.journal.made(server, owner);
            }
            if self.gated && script.is_none_or(|script| !(script.acquires && script.gated)) {
                broken(format!("{title} made a lock, past the gate"));
            }
            let not_after = script.filter(|script| script.acquires).and_then(|_| not_after(words));
            if not_after.is_some_and(|end| now > end) {
                broken(format!("{title} took effect after its client had given it up"));
            }
        }
    }
}

/// Whether it is the key of a lock, and none of a helper or of the voter's marker.
pub(crate) fn is_lock(key: &[u8]) -> bool {
    !key.starts_with(b"{") && key != b"lock:voter"
}

/// The owner token at the head of a word.
pub(crate) fn owner_of(word: &[u8]) -> Option<&[u8]> {
    let token = word.get(..TOKEN)?;
    let ends = word.get(TOKEN).is_none_or(|next| *next == b' ');
    (ends && token.iter().all(u8::is_ascii_hexdigit)).then_some(token)
}

/// Until when an acquire may take effect, by the server's clock in us: its fourth argument.
fn not_after(words: &[Vec<u8>]) -> Option<i64> {
    let keys: usize = std::str::from_utf8(words.get(2)?).ok()?.parse().ok()?;
    std::str::from_utf8(words.get(3 + keys + 3)?).ok()?.parse().ok()
}
