//! What the page shows at one moment, as JSON.

use std::cmp::Reverse;
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
    /// How many keys match.
    total: usize,
    /// How many claims wait for them.
    waiting: usize,
    /// Whether there are more keys than the list of the store has.
    truncated: bool,
    locks: Vec<&'a LockInfo>,
    error: Option<&'a str>,
    unlisted: bool,
    /// When the list was made.
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
    /// When the journal began.
    since_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    heat: Option<Vec<Heat>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<Entry>>,
}

impl Past {
    pub(super) fn of(journal: &Journal, now: Duration, view: View) -> Self {
        Self {
            since_ms: journal.began_ms(),
            heat: view.shows(View::Heat).then(|| journal.heat(now)),
            history: view.shows(View::History).then(|| journal.history(now)),
        }
    }
}

/// Returns what a viewer sees, as JSON without the time: it changes only if the viewer would see a change.
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
        total: matching.len(),
        waiting: matching.iter().map(|lock| lock.waiting).sum(),
        truncated: seen.listed.truncated,
        locks: rows(matching, query),
        error: seen.error.as_deref(),
        unlisted: seen.is_unlisted,
        // It changes with each look, and is needed while the list is old.
        seen_ms: seen.listed_ms.filter(|_| seen.error.is_some()),
        ping: shows_stores.then_some(seen.ping.as_ref()),
        look_ms: shows_stores.then_some(millis(seen.took)),
        past,
    };
    // Plain data: no map has keys that are not text.
    serde_json::to_string(&snapshot).unwrap_or_else(|_| "{}".to_owned())
}

/// Returns a rendered snapshot with its time.
pub(super) fn at(time_ms: u64, rendered: &str) -> String {
    format!("{{\"time_ms\":{time_ms},{}", &rendered[1..])
}

/// Returns the locks that a view shows: those held longest, or those with the most waiters. A key with many holders
/// counts as many.
fn rows<'a>(mut locks: Vec<&'a LockInfo>, query: &Query) -> Vec<&'a LockInfo> {
    match query.view {
        View::All | View::Held => locks.sort_by_key(|lock| oldest(lock)),
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

/// Returns when the first holder of a lock requested it. Nothing is known about clients of other libraries: they come
/// last.
fn oldest(lock: &LockInfo) -> Duration {
    let since = |holder: &lock_core::HolderInfo| {
        holder.record.as_ref().map(lock_core::owner::OwnerRecord::since_epoch)
    };
    lock.holders.iter().filter_map(since).min().unwrap_or(Duration::MAX)
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
            // Two holders, so one key.
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
            let past = Past::of(&journal, Duration::ZERO, view);
            let text = at(7, &render(&locks, &seen, past, &query, true));
            let snapshot: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let shown = ["ping", "heat", "history"].map(|part| snapshot.get(part).is_some());
            assert_eq!(shown, has, "{view:?}");
            assert_eq!((&snapshot["time_ms"], &snapshot["store"]), (&7.into(), &"memory".into()));
        }
    }
}
