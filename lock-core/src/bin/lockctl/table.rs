//! Shows locks as text and as JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::Mode;
use lock_core::owner::{Identity, OwnerRecord};
use lock_core::{HolderInfo, LockInfo};
use serde_json::{Value, json as object};

/// Returns a time as text in its two largest units, such as `1m01s`. A time below one minute has one unit: `41s` or
/// `999ms`.
pub(crate) fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn holder(holder: &HolderInfo) -> String {
    match (&holder.record, holder.kept) {
        (Some(record), false) => record.to_string(),
        (Some(record), true) => format!("nobody: kept after {record}"),
        (None, false) => "a client of another library".to_owned(),
        (None, true) => "nobody: kept".to_owned(),
    }
}

/// Returns the time for which the lock has been held, by the wall clocks of both machines. If the store does not keep
/// the time of the grant, returns the time since the holder's request. If the key is only kept after its release,
/// returns `None`.
pub(crate) fn age(holder: &HolderInfo) -> Option<Duration> {
    if holder.kept {
        return None;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.saturating_sub(holder.since()?))
}

/// Describes the time for which the lock has been held: `41s`, or `asked 41s` if only the time of the request is known.
pub(crate) fn held_for(holder: &HolderInfo) -> Option<String> {
    let asked = if holder.held_since.is_some() { "" } else { "asked " };
    Some(format!("{asked}{}", short(age(holder)?)))
}

/// Returns whether the record belongs to this process.
pub(crate) fn is_own(record: &OwnerRecord) -> bool {
    is_of_this_host(record) && record.identity().pid() == std::process::id()
}

/// Returns whether the record belongs to this host. Process ids may be compared only with those of a record of the same
/// host.
pub(crate) fn is_of_this_host(record: &OwnerRecord) -> bool {
    record.identity().host() == Identity::of_this_process("").host()
}

pub(crate) fn mode(mode: Mode) -> String {
    match mode {
        Mode::Shared => "read".to_owned(),
        Mode::Permit { of } => format!("permit of {of}"),
        _ => "exclusive".to_owned(),
    }
}

/// Returns a lock as JSON. Times are in milliseconds. `since_ms` and `held_since_ms` are counted since the Unix epoch.
pub(crate) fn json(lock: &LockInfo) -> Value {
    let holders = lock.holders.iter().map(|holder| {
        object!({
            "id": holder.id.as_str(),
            "owner": holder.record,
            "held_since_ms": holder.held_since.map(millis),
            "remaining_ms": holder.remaining.map(millis),
            "kept": holder.kept,
        })
    });
    let waiters =
        lock.waiters.iter().map(|waiter| object!({ "owner": waiter.record, "mode": mode(waiter.mode) }));
    object!({
        "key": lock.key,
        "mode": mode(lock.mode),
        "holding": lock.holding,
        "holders": holders.collect::<Vec<_>>(),
        "waiting": lock.waiting,
        "waiters": waiters.collect::<Vec<_>>(),
    })
}

/// Returns the locks as a table, one line for each holder.
pub(crate) fn table(locks: &[LockInfo]) -> String {
    let mut rows = vec![["KEY", "MODE", "HELD BY", "HELD FOR", "LEASE", "WAITING", "ID"].map(str::to_owned)];
    for lock in locks {
        for (at, held) in lock.holders.iter().enumerate() {
            rows.push([
                if at == 0 { lock.key.escape_debug().to_string() } else { String::new() },
                mode(lock.mode),
                holder(held),
                held_for(held).unwrap_or_else(|| "-".to_owned()),
                held.remaining.map_or_else(|| "no end".to_owned(), short),
                if at == 0 { lock.waiting.to_string() } else { String::new() },
                held.id.to_string(),
            ]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (59_999, "59s"),
            (61_000, "1m01s"),
            (3_661_000, "1h01m"),
            (90_000_000, "1d01h"),
        ] {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_hostile_key_stays_in_its_cell() {
        let id = "0123456789abcdef0123456789abcdef01234567".parse().expect("an id");
        let held = HolderInfo::new(id, None, None, false);
        let text = table(&[LockInfo::new("a\nb\x1b[31m", Mode::Exclusive, vec![held])]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("a\\nb\\u{1b}[31m") && text.contains("no end"), "{text}");
    }
}
