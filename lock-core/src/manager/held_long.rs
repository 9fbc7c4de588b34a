//! Finds locks that are held for much longer than others of their kind, without I/O. Locks are of one kind if their
//! keys differ only in the part after the last `:`.

use std::collections::HashMap;
use std::time::Duration;

use crate::backend::{Finding, HolderInfo, LockInfo, Severity};

/// The minimum number of held locks of a kind. The median of fewer locks does not show the usual duration of a hold.
const HELD: usize = 20;
/// A lock is reported if its age is more than [`SHORT`], and more than `TIMES` times the median age of its kind.
const TIMES: u32 = 10;
const SHORT: Duration = Duration::from_secs(10);
/// The maximum number of findings. If there are more, the locks that are held longest are reported.
const NAMED: usize = 10;

/// Returns a finding for each key that is held for much longer than the others of its kind, while others wait for it.
/// Keys without waiters in the store are not reported, because the tasks of one process may then hand a key off to each
/// other without a time limit. `now` is the time since the Unix epoch.
pub(super) fn find(locks: &[LockInfo], now: Duration) -> Vec<Finding> {
    let mut kinds: HashMap<&str, Vec<Held<'_>>> = HashMap::new();
    for lock in locks {
        if let (Some(kind), Some(held)) = (kind(&lock.key), Held::new(lock, now)) {
            kinds.entry(kind).or_default().push(held);
        }
    }
    let mut long: Vec<(Duration, Finding)> = Vec::new();
    for (kind, mut all) in kinds.into_iter().filter(|(_, all)| all.len() >= HELD) {
        all.sort_unstable_by_key(|held| held.at_most);
        let median = all[all.len() / 2].at_most;
        let is_long = |age: &Duration| *age > SHORT && *age > median * TIMES;
        let waited_for = all.iter().filter(|held| held.lock.waiting > 0);
        let named = waited_for.filter_map(|held| Some((held.age.filter(is_long)?, held.lock)));
        long.extend(named.map(|(age, lock)| (age, finding(lock, age, kind, all.len(), median))));
    }
    long.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.about.cmp(&other.about)));
    long.into_iter().take(NAMED).map(|(_, finding)| finding).collect()
}

/// Returns the part of the key that all keys of its kind share. For `shop:order:42` this is `shop:order`.
fn kind(key: &str) -> Option<&str> {
    key.rsplit_once(':').map(|(kind, _)| kind)
}

/// A key that is held.
struct Held<'a> {
    lock: &'a LockInfo,
    /// The time since the grant, if the store shows when it granted the lock.
    age: Option<Duration>,
    /// An upper bound of the age. If the store does not show the time of the grant, this is the time since the holder's
    /// request.
    at_most: Duration,
}

impl<'a> Held<'a> {
    /// Returns how long a key is held. Returns `None` if the key has no holder of this library, or is only
    /// [kept](crate::LockRequest::min_hold) after its release.
    fn new(lock: &'a LockInfo, now: Duration) -> Option<Self> {
        let holders = || lock.holders.iter().filter(|holder| !holder.kept);
        let age =
            holders().filter_map(|holder| holder.held_since).min().map(|since| now.saturating_sub(since));
        let at_most = holders().filter_map(HolderInfo::since).min().map(|since| now.saturating_sub(since))?;
        Some(Self { lock, age, at_most })
    }
}

fn finding(lock: &LockInfo, age: Duration, kind: &str, held: usize, median: Duration) -> Finding {
    let found = format!(
        "others wait, and it is held for {:.1} s; half of the {held} locks `{kind}:*` that are held now are younger than \
         {:.1} s",
        age.as_secs_f64(),
        median.as_secs_f64(),
    );
    let advice =
        "look at what its holder does; if it hangs, end it, or take the lock from it with `force_release`";
    Finding::new(Severity::Note, "locks.held_long", found, advice).about(&lock.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{GrantId, Mode};
    use crate::owner::{Identity, OwnerRecord};

    const NOW: Duration = Duration::from_secs(100_000);

    /// Returns a key that was granted `age` seconds ago and has `waiting` waiters.
    fn held(key: &str, age: Option<u64>, waiting: usize) -> LockInfo {
        let id: GrantId = "a".repeat(40).parse().expect("an id");
        let since = age.map(|age| NOW - Duration::from_secs(age));
        let holder = HolderInfo::new(id, None, None, false).with_held_since(since);
        LockInfo::new(key, Mode::Exclusive, vec![holder]).with_waiters(waiting, Vec::new())
    }

    #[test]
    fn what_is_long_depends_on_the_others_of_its_kind() {
        for (others, of_age, key, age, waiting, is_long) in [
            (19, 2, "order:42", Some(21), 1, true),
            (19, 2, "order:42", Some(20), 1, false),
            // This key has no waiters.
            (19, 2, "order:42", Some(900), 0, false),
            // Too few keys of this kind are held, or the key has no kind.
            (18, 2, "order:42", Some(900), 1, false),
            (19, 2, "import:42", Some(900), 1, false),
            (19, 2, "nightly", Some(900), 1, false),
            // A hold of up to 10 s is never reported, even if the other holds are shorter.
            (19, 0, "order:42", Some(10), 1, false),
            (19, 0, "order:42", Some(11), 1, true),
            // The store does not keep the time of the grant.
            (19, 2, "order:42", None, 1, false),
        ] {
            let mut locks: Vec<_> =
                (0..others).map(|at| held(&format!("order:o{at}"), Some(of_age), 3)).collect();
            locks.push(held(key, age, waiting));
            let found = find(&locks, NOW);
            let about: Vec<&str> = found.iter().map(|finding| finding.about.as_str()).collect();
            assert_eq!(
                about,
                if is_long { vec![key] } else { vec![] },
                "{others} {of_age} {key} {age:?} {waiting}"
            );
        }
    }

    /// If fewer than half of the locks hang, the others still show the usual duration of a hold.
    #[test]
    fn many_may_be_long_and_the_oldest_are_named() {
        let mut locks: Vec<_> = (0..30).map(|at| held(&format!("shop:order:{at}"), Some(1), 0)).collect();
        locks.extend((0..15).map(|at| held(&format!("shop:order:old-{at:02}"), Some(100 + at), 1)));
        let found = find(&locks, NOW);
        assert_eq!(found.len(), NAMED);
        assert_eq!(found[0].about, "shop:order:old-14");
        assert!(
            found[0].found.contains("114.0 s; half of the 45 locks `shop:order:*`"),
            "{}",
            found[0].found
        );
    }

    /// Some stores show the time of a grant only after its first renewal, and a short lock is never renewed. Such a
    /// lock still counts for the usual duration.
    #[test]
    fn a_lock_without_the_time_of_its_grant_counts_by_its_request() {
        let record = || Some(OwnerRecord::new(Identity::of_this_process("").into(), None));
        let id = || "a".repeat(40).parse::<GrantId>().expect("an id");
        let asked = |key: String| {
            let holders = vec![HolderInfo::new(id(), record(), None, false)];
            LockInfo::new(key, Mode::Exclusive, holders).with_waiters(1, Vec::new())
        };
        let now = crate::clock::wall() + Duration::from_secs(2);
        let mut locks: Vec<_> = (0..19).map(|at| asked(format!("order:{at}"))).collect();
        let since = now.checked_sub(Duration::from_secs(60));
        let hangs = HolderInfo::new(id(), record(), None, false).with_held_since(since);
        locks.push(LockInfo::new("order:hangs", Mode::Exclusive, vec![hangs]).with_waiters(1, Vec::new()));
        let about = |now| find(&locks, now).into_iter().map(|finding| finding.about).collect::<Vec<_>>();
        assert_eq!(about(now), ["order:hangs"]);
        // The requests of the other locks are now ten minutes old, and so these locks may be as old. Nothing stands
        // out.
        assert_eq!(about(now + Duration::from_secs(600)), [""; 0]);
    }
}
