//! Finds locks that are held for longer than usual.

use std::time::Duration;

use lock_core::key::KeyTemplate;
use lock_core::{Finding, LockInfo, Severity};

use super::journal::{Heat, by_first_part};

/// The smallest number of holds from which a usual time is computed.
const HOLDS: u64 = 20;
/// A hold is long if it lasts for more than this many times the usual time, and for longer than [`SHORT`].
const TIMES: f64 = 2.0;
const SHORT: Duration = Duration::from_secs(1);
/// The largest number of findings. Each finding names one key.
const NAMED: usize = 10;

/// The time for which the locks of one template are usually held.
struct Usual<'a> {
    name: &'a str,
    template: Option<KeyTemplate>,
    p99: Duration,
}

impl<'a> Usual<'a> {
    fn new(heat: &'a Heat) -> Option<Self> {
        let p99 = Duration::from_secs_f64(heat.held_p99_ms.filter(|_| heat.ended >= HOLDS)? / 1_000.0);
        Some(Self { name: &heat.template, template: KeyTemplate::parse(&heat.template).ok(), p99 })
    }
}

/// Returns a finding for each key that is held for much longer than usual while others wait. A key without waiters is
/// omitted, because the tasks of one process may hand its lock off to each other, and the grant then becomes older than
/// any hold. `now` is the time of the list of locks, since the Unix epoch.
pub(super) fn find(heat: &[Heat], locks: &[LockInfo], now: Duration) -> Vec<Finding> {
    let usual: Vec<Usual<'_>> = heat.iter().filter_map(Usual::new).collect();
    let long = locks.iter().filter(|lock| lock.waiting > 0).filter_map(|lock| {
        let held = lock.holders.iter().filter(|holder| !holder.kept).filter_map(|holder| holder.held_since);
        let age = now.saturating_sub(held.min()?);
        // The search for the template comes last, because it is slow.
        (age > SHORT).then(|| finding(&lock.key, usual_of(&lock.key, &usual)?, age)).flatten()
    });
    long.take(NAMED).collect()
}

/// Returns the usual hold time of a key. If several templates can produce the key, returns the longest of their times.
fn usual_of<'a>(key: &str, usual: &'a [Usual<'a>]) -> Option<&'a Usual<'a>> {
    let group = by_first_part(key);
    // The key is converted to a template without placeholders. A `<` in the key is written twice, because in a template
    // `<` begins a placeholder.
    let literal = KeyTemplate::parse(&key.replace('<', "<<")).ok();
    let gives = |template: &KeyTemplate| literal.as_ref().is_some_and(|key| template.clash(key).is_some());
    let covers = |usual: &&Usual<'_>| {
        usual.name == key || usual.name == group || usual.template.as_ref().is_some_and(gives)
    };
    usual.iter().filter(covers).max_by_key(|usual| usual.p99)
}

fn finding(key: &str, usual: &Usual<'_>, age: Duration) -> Option<Finding> {
    if age <= usual.p99.mul_f64(TIMES) {
        return None;
    }
    let found = format!(
        "others wait, and it is held for {:.1} s; 99 of 100 holds of `{}` took at most {:.3} s in this process in the \
         last quarter of an hour",
        age.as_secs_f64(),
        usual.name,
        usual.p99.as_secs_f64(),
    );
    let advice =
        "look at what its holder does; if it hangs, end it, or take the lock from it with `force_release`";
    Some(Finding::new(Severity::Note, "locks.held_long", found, advice).about(key))
}

#[cfg(test)]
mod tests {
    use lock_core::backend::Mode;
    use lock_core::{GrantId, HolderInfo};

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn heat(template: &str, ended: u64, held_p99_ms: Option<f64>) -> Heat {
        let (waited_p50_ms, waited_p99_ms, held_p50_ms) = (None, None, None);
        let (template, granted, refused) = (template.to_owned(), 500, 0);
        Heat { template, granted, refused, waited_p50_ms, waited_p99_ms, ended, held_p50_ms, held_p99_ms }
    }

    fn held(key: &str, age_ms: Option<u64>, kept: bool) -> LockInfo {
        let id: GrantId = "a".repeat(40).parse().expect("an id");
        let since = age_ms.map(|age| NOW - Duration::from_millis(age));
        let holder = HolderInfo::new(id, None, None, kept).with_held_since(since);
        LockInfo::new(key, Mode::Exclusive, vec![holder]).with_waiters(1, Vec::new())
    }

    #[test]
    fn a_hold_is_long_by_what_is_usual_for_its_template() {
        let usual = [
            heat("order:<id>", 100, Some(700.0)),
            heat("quick:*", 100, Some(1.0)),
            heat("nightly", 20, Some(60_000.0)),
            heat("new:<id>", 19, Some(1.0)),
            heat("held:<id>", 500, None),
            heat("(others)", 500, Some(1.0)),
            heat("a<<b:<id>", 50, Some(1.0)),
        ];
        for (key, age_ms, kept, is_long) in [
            ("order:42", Some(1_401), false, true),
            ("order:42", Some(1_399), false, false),
            ("order:42", Some(9_000), true, false),
            // Here, the store does not keep the time of the grant.
            ("order:42", None, false, false),
            ("quick:1:2", Some(1_001), false, true),
            ("quick:1:2", Some(1_000), false, false),
            ("nightly", Some(121_000), false, true),
            ("nightly", Some(119_000), false, false),
            // Here, too few holds have ended, or none.
            ("new:1", Some(90_000), false, false),
            ("held:1", Some(90_000), false, false),
            ("unknown:1", Some(90_000), false, false),
            ("a<b:1", Some(1_001), false, true),
        ] {
            let found = find(&usual, &[held(key, age_ms, kept)], NOW);
            let about: Vec<&str> = found.iter().map(|finding| finding.about.as_str()).collect();
            assert_eq!(about, if is_long { vec![key] } else { Vec::new() }, "{key} {age_ms:?} {kept}");
        }
    }

    #[test]
    fn a_lock_that_nobody_waits_for_may_be_handed_on_for_long() {
        let usual = [heat("k", 100, Some(1.0))];
        let lock = held("k", Some(90_000), false);
        assert_eq!(find(&usual, std::slice::from_ref(&lock), NOW).len(), 1);
        assert_eq!(find(&usual, &[lock.with_waiters(0, Vec::new())], NOW).len(), 0);
    }

    #[test]
    fn the_longest_usual_hold_counts_and_few_are_named() {
        let usual = [heat("<any>", 90, Some(1.0)), heat("order:<id>", 90, Some(5_000.0))];
        let locks: Vec<LockInfo> =
            (0..30).map(|key| held(&format!("order:{key}"), Some(9_000), false)).collect();
        assert_eq!(find(&usual, &locks, NOW).len(), 0);
        assert_eq!(find(&usual, &locks, NOW + Duration::from_secs(2)).len(), NAMED);
    }
}
