//! Writes the lines in which operators see locks, holders and waiters.

use std::fmt;

use super::{HolderInfo, Listed, LockInfo, WaiterInfo};
use crate::backend::Mode;
use crate::clock::Date;
use crate::owner::OwnerRecord;

/// The largest number of holders in a line.
const SHOWN: usize = 3;

/// Writes `exclusive`, `shared` or `permit of 3`.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Permit { of } => write!(f, "permit of {of}"),
        }
    }
}

/// Writes one line: `order:42 (exclusive) is held by web-3 pid 811 (shop, pay) since 2026-11-20T20:53:20Z, 7.0 s left; 2
/// wait`.
impl fmt::Display for LockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is escaped, because any client of the store can choose a key that would break the line.
        write!(f, "{} ({}) is ", self.key.escape_debug(), self.mode)?;
        for (number, holder) in self.holders.iter().take(SHOWN).enumerate() {
            write!(f, "{}{holder}", if number == 0 { "" } else { ", and " })?;
        }
        if self.holding > SHOWN {
            write!(f, ", {} in all", self.holding)?;
        }
        match self.waiting {
            0 => Ok(()),
            1 => f.write_str("; 1 waits"),
            waiting => write!(f, "; {waiting} wait"),
        }
    }
}

/// Writes one line: `held by web-3 pid 811 (shop, pay) since 2026-11-20T20:53:20Z, 7.0 s left`, or `.. (shop, pay),
/// asked at 2026-11-20T20:53:20Z, 7.0 s left` if the store does not keep when the lock was granted.
impl fmt::Display for HolderInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.record, self.kept) {
            (Some(record), false) => match self.held_since {
                Some(since) => write!(f, "held by {record} since {}", Date(since))?,
                // The holder may have waited after its request.
                None => write!(f, "held by {record}, asked at {}", Date(record.since_epoch()))?,
            },
            (None, false) => f.write_str("held by a client of another library")?,
            (Some(record), true) => write!(f, "kept after {record} has released it")?,
            (None, true) => f.write_str("kept after its release")?,
        }
        match self.remaining {
            Some(left) if left.as_secs() >= 10 => write!(f, ", {} s left", left.as_secs()),
            Some(left) => write!(f, ", {:.1} s left", left.as_secs_f64()),
            None => f.write_str(", without an end"),
        }
    }
}

/// Writes one line: `web-4 pid 7 (shop) waits since 2026-11-20T20:53:20Z (exclusive)`.
impl fmt::Display for WaiterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = |record: &OwnerRecord| format!("{record} waits since {}", Date(record.since_epoch()));
        let waits =
            self.record.as_ref().map_or_else(|| "a client of another library waits".to_owned(), since);
        write!(f, "{waits} ({})", self.mode)
    }
}

/// Writes the number of keys: `2 keys are held`.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.locks.len(), self.truncated) {
            (1, false) => f.write_str("1 key is held"),
            (count, false) => write!(f, "{count} keys are held"),
            (count, true) => write!(f, "more than {count} keys are held"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::GrantId;

    fn record(label: &str) -> OwnerRecord {
        let value =
            format!("{} host=web-3 pid=811 service=shop label={label} since=1763672000123", "a".repeat(48));
        OwnerRecord::from_value(&value).expect("a record")
    }

    fn holder(record: Option<OwnerRecord>, left: Option<u64>, kept: bool) -> HolderInfo {
        let id: GrantId = "a".repeat(40).parse().expect("an id");
        HolderInfo::new(id, record, left.map(Duration::from_millis), kept)
    }

    #[test]
    fn a_lock_is_one_line() {
        let one = || holder(Some(record("pay")), Some(7_250), false);
        let waiter = WaiterInfo::new(Some(record("wait")), Mode::Shared);
        let table = [
            (
                LockInfo::new("order:42", Mode::Exclusive, vec![one()])
                    .with_waiters(2, vec![waiter.clone()])
                    .to_string(),
                "order:42 (exclusive) is held by web-3 pid 811 (shop, pay), asked at 2025-11-20T20:53:20Z, 7.2 s left; 2 wait",
            ),
            (
                LockInfo::new("a\n", Mode::Permit { of: 9 }, vec![one(); 4]).with_holding(5).to_string(),
                "a\\n (permit of 9) is held by web-3 pid 811 (shop, pay), asked at 2025-11-20T20:53:20Z, 7.2 s left, and held by \
                 web-3 pid 811 (shop, pay), asked at 2025-11-20T20:53:20Z, 7.2 s left, and held by web-3 pid 811 (shop, pay), asked at \
                 2025-11-20T20:53:20Z, 7.2 s left, 5 in all",
            ),
            (
                holder(Some(record("x")), None, false)
                    .with_held_since(Some(Duration::from_secs(1_763_672_060)))
                    .to_string(),
                "held by web-3 pid 811 (shop, x) since 2025-11-20T20:54:20Z, without an end",
            ),
            (holder(None, None, false).to_string(), "held by a client of another library, without an end"),
            (
                holder(Some(record("x")), Some(12_900), true).to_string(),
                "kept after web-3 pid 811 (shop, x) has released it, 12 s left",
            ),
            (waiter.to_string(), "web-3 pid 811 (shop, wait) waits since 2025-11-20T20:53:20Z (shared)"),
            (Listed::default().to_string(), "0 keys are held"),
        ];
        for (line, expected) in table {
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn the_debug_output_of_a_record_shows_its_fields_alone() {
        let shown = format!("{:?}", record("pay"));
        let expected = "OwnerRecord { identity: Identity { host: \"web-3\", pid: 811, service: \"shop\" }, label: \
                        Some(\"pay\"), since: 2025-11-20T20:53:20Z }";
        assert_eq!(shown, expected);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_lock_is_serialized_with_its_times_in_milliseconds() {
        let held_since = Some(Duration::from_secs(1_763_672_060));
        let holder = holder(Some(record("pay")), Some(7_250), false).with_held_since(held_since);
        let lock = LockInfo::new("k", Mode::Permit { of: 3 }, vec![holder]);
        let lock = lock.with_waiters(1, vec![WaiterInfo::new(None, Mode::Exclusive)]);
        let expected = serde_json::json!({
            "key": "k",
            "mode": { "permit": { "of": 3 } },
            "holders": [{
                "id": "a".repeat(40),
                "record": {
                    "host": "web-3", "pid": 811, "service": "shop", "label": "pay", "since_ms": 1_763_672_000_123_u64,
                },
                "held_since_ms": 1_763_672_060_000_u64,
                "remaining_ms": 7_250,
                "kept": false,
            }],
            "holding": 1,
            "waiting": 1,
            "waiters": [{ "record": null, "mode": "exclusive" }],
        });
        assert_eq!(serde_json::to_value(&lock).expect("it is plain data"), expected);
        let listed = serde_json::to_value(Listed::new(vec![lock], 0)).expect("it is plain data");
        assert_eq!(listed, serde_json::json!({ "locks": [], "truncated": true }));
    }
}
