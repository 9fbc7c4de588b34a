//! Builds a snapshot: the content of the page at one moment, as JSON.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use lock_core::{LockInfo, LockManager, Ping};
use serde::Serialize;

use super::journal::{Entry, Heat, Journal, millis};
use super::poll::Seen;
use super::query::{Query, View};

#[derive(Debug, Serialize)]
struct Snapshot<'a> {
    service: &'a str,
    host: &'a str,
    pid: u32,
    store: &'a str,
    namespace: &'a str,
    read_only: bool,
    /// The number of keys that match the prefix, or `None` if there is no list.
    total: Option<usize>,
    /// The number of claims that wait for these keys.
    waiting: Option<usize>,
    /// Whether there are more keys than the list of the store has.
    truncated: bool,
    locks: Vec<&'a LockInfo>,
    error: Option<&'a str>,
    unlisted: bool,
    /// The time of the list.
    seen_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ping: Option<Option<&'a Ping>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    look_ms: Option<u64>,
    #[serde(flatten)]
    past: Past,
}

/// The part of a snapshot that is from the journal.
#[derive(Debug, Default, Serialize)]
pub(super) struct Past {
    /// The time when the journal began.
    since_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    heat: Option<Vec<Heat>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<Entry>>,
}

impl Past {
    pub(super) fn new(journal: &Journal, now: Duration, view: View) -> Self {
        Self {
            since_ms: journal.began_ms(),
            heat: view.shows(View::Heat).then(|| journal.heat(now)),
            history: view.shows(View::History).then(|| journal.history(now)),
        }
    }
}

/// Returns the snapshot for a viewer as JSON. The JSON does not contain the present time.
pub(super) fn render(locks: &LockManager, seen: &Seen, past: Past, query: &Query, read_only: bool) -> String {
    let shows_stores = query.view.shows(View::Stores);
    let matching: Vec<&LockInfo> =
        seen.listed.locks.iter().filter(|lock| lock.key.starts_with(&query.prefix)).collect();
    let snapshot = Snapshot {
        service: locks.identity().service(),
        host: locks.identity().host(),
        pid: locks.identity().pid(),
        store: locks.store(),
        namespace: locks.namespace(),
        read_only,
        total: seen.listed_ms.map(|_| matching.len()),
        waiting: seen.listed_ms.map(|_| matching.iter().map(|lock| lock.waiting).sum()),
        truncated: seen.listed.truncated,
        locks: rows(matching, query),
        error: seen.error.as_deref(),
        unlisted: seen.is_unlisted,
        seen_ms: seen.listed_ms,
        ping: shows_stores.then_some(seen.ping.as_ref()),
        look_ms: shows_stores.then_some(millis(seen.took)),
        past,
    };
    // Plain data cannot fail to serialize: all keys of maps are text.
    serde_json::to_string(&snapshot).unwrap_or_else(|_| "{}".to_owned())
}

/// Returns `rendered` with the time `time_ms` added.
pub(super) fn with_time(time_ms: u64, rendered: &str) -> String {
    format!("{{\"time_ms\":{time_ms},{}", &rendered[1..])
}

/// The names of numbers that differ after each poll, and do not count as a change. `held_since_ms` is one of them,
/// because the memory store computes it from the present time.
const PASSING: [&str; 5] = ["\"held_since_ms", "\"remaining_ms", "\"seen_ms", "\"look_ms", "\"round_trip_us"];

/// Returns a hash of a rendered snapshot. The hash changes if the viewer can see a difference.
pub(super) fn fingerprint(rendered: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut is_passing = false;
    // Only the name of a JSON member ends with these two characters, because quotes inside of a text are escaped.
    for part in rendered.split("\":") {
        let number = |char: char| is_passing && char.is_ascii_digit();
        part.trim_start_matches(number).hash(&mut hasher);
        is_passing = PASSING.iter().any(|name| part.ends_with(name));
    }
    hasher.finish()
}

/// Returns the locks that a view shows: the locks that are held longest, or the locks with the most waiters. The limit
/// applies to holders, not to keys.
fn rows<'a>(mut locks: Vec<&'a LockInfo>, query: &Query) -> Vec<&'a LockInfo> {
    match query.view {
        View::All | View::Held => locks.sort_by_cached_key(|lock| oldest(lock)),
        View::Waiting => {
            locks.retain(|lock| lock.waiting > 0);
            locks.sort_by_key(|lock| Reverse(lock.waiting));
        }
        View::Heat | View::History | View::Stores | View::Doctor => locks.clear(),
    }
    let mut holders = 0;
    let fits = |lock: &&LockInfo| {
        let fits = holders < query.limit;
        holders += lock.holders.len().max(1);
        fits
    };
    locks.into_iter().take_while(fits).collect()
}

/// Returns the time when the oldest holder got the lock, or requested it. A lock without such a time, for example of
/// another library, is sorted last.
fn oldest(lock: &LockInfo) -> Duration {
    lock.holders.iter().filter_map(lock_core::HolderInfo::since).min().unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use lock_core::backend::Mode;
    use lock_core::owner::OwnerRecord;
    use lock_core::{GrantId, HolderInfo};

    use super::*;

    fn lock(key: &str, since: &[Option<u64>], waiting: usize) -> LockInfo {
        let holders = since.iter().map(|since| {
            let id: GrantId = "a".repeat(40).parse().expect("an id");
            let value = |since| format!("{} host=h pid=1 service=s since={since}", "a".repeat(48));
            let record = since.map(|since| OwnerRecord::from_value(&value(since)).expect("a record"));
            HolderInfo::new(id, record, None, false)
        });
        LockInfo::new(key, Mode::Shared, holders.collect()).with_waiters(waiting, Vec::new())
    }

    #[test]
    fn a_view_shows_the_locks_that_matter_most() {
        let locks = [
            lock("a", &[Some(5)], 0),
            lock("b", &[None], 1),
            lock("c", &[Some(9), Some(2)], 3),
            lock("d", &[Some(5)], 2),
            lock("e", &[], 0),
        ];
        let keys = |view, limit| {
            let query = Query { view, prefix: String::new(), limit };
            let rows = rows(locks.iter().collect(), &query);
            rows.iter().map(|lock| lock.key.as_str()).collect::<String>()
        };
        for (view, limit, expected) in [
            (View::Held, 500, "cadbe"),
            (View::All, 500, "cadbe"),
            // The limit counts holders, and the key `c` alone has two.
            (View::Held, 2, "c"),
            (View::Held, 3, "ca"),
            (View::Waiting, 500, "cdb"),
            (View::Waiting, 1, "c"),
            (View::Heat, 500, ""),
            (View::Doctor, 500, ""),
        ] {
            assert_eq!(keys(view, limit), expected, "{view:?} {limit}");
        }
    }

    #[test]
    fn what_passes_with_time_is_no_change() {
        let one =
            r#"{"total":1,"locks":[{"key":"a","remaining_ms":70,"kept":false}],"seen_ms":5,"look_ms":3}"#;
        for (other, is_change) in [
            (one.replace("70", "6"), false),
            (one.replace("seen_ms\":5", "seen_ms\":67"), false),
            (one.replace("look_ms\":3", "look_ms\":41"), false),
            (one.replace("70", "null"), true),
            (one.replace("total\":1", "total\":2"), true),
            (one.replace("\"a\"", "\"b\""), true),
        ] {
            assert_eq!(fingerprint(one) != fingerprint(&other), is_change, "{other}");
        }
        // A key can contain the name of such a number, followed by digits. Another key is still a change.
        let key = |number| serde_json::json!({ "key": format!("\"remaining_ms\":{number}") }).to_string();
        assert_ne!(fingerprint(&key(1)), fingerprint(&key(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_has_what_its_view_shows() {
        let locks = LockManager::in_memory();
        let seen = Seen::default();
        let journal = Journal::default();
        for (view, has) in [
            (View::All, [true, true, true]),
            (View::Held, [false, false, false]),
            (View::Stores, [true, false, false]),
            (View::Heat, [false, true, false]),
            (View::History, [false, false, true]),
        ] {
            let query = Query { view, prefix: String::new(), limit: 1 };
            let past = Past::new(&journal, Duration::ZERO, view);
            let text = with_time(7, &render(&locks, &seen, past, &query, true));
            let snapshot: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let shown = ["ping", "heat", "history"].map(|part| snapshot.get(part).is_some());
            assert_eq!(shown, has, "{view:?}");
            assert_eq!((&snapshot["time_ms"], &snapshot["store"]), (&7.into(), &"memory".into()));
            // The store was never polled, so there is no list.
            assert!(snapshot["total"].is_null() && snapshot["waiting"].is_null());
        }
    }
}
