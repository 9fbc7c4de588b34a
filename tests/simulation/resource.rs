//! The protected resource as a user should build it. It refuses fencing tokens that are smaller than one that it has
//! received.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lock_core::FencingToken;

use crate::check::Oracle;
use crate::journal::Journal;

/// The resources, one for each key. They have no faults.
#[derive(Clone)]
pub(crate) struct Resource {
    seen: Rc<RefCell<BTreeMap<String, Seen>>>,
    /// Whether the resource has the bug that it accepts every write.
    takes_all: bool,
    journal: Journal,
}

/// The uses of a resource so far.
#[derive(Default)]
struct Seen {
    /// The largest token of a writer, and the largest token of all users.
    written: Option<FencingToken>,
    largest: Option<FencingToken>,
    /// The start of the youngest hold with an accepted write.
    youngest: Duration,
}

/// One use of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use<'a> {
    pub(crate) who: &'a str,
    pub(crate) key: &'a str,
    pub(crate) token: FencingToken,
    /// Whether the user only reads, possibly next to other readers.
    pub(crate) reads: bool,
    /// The start of the hold to which the use belongs.
    pub(crate) since: Duration,
    /// Whether the user certainly holds that lock. Then a refusal is wrong, because it means that a later client
    /// already had the lock.
    pub(crate) held: bool,
}

impl Resource {
    pub(crate) fn new(journal: Journal, takes_all: bool) -> Self {
        Self { seen: Rc::default(), takes_all, journal }
    }

    /// Uses the protected resource.
    pub(crate) fn serve(&self, Use { who, key, token, reads, since, held }: Use<'_>) {
        let mut all = self.seen.borrow_mut();
        let seen = all.entry(key.to_owned()).or_default();
        // Between two writers, readers arrive in any order.
        let least = if reads { seen.written } else { seen.largest };
        let taken = self.takes_all || Some(token) >= least;
        let what = if reads { "reads" } else { "writes to" };
        self.journal.note(who, format_args!("{what} {key}, held: {held}, taken: {taken}"));
        if held && !taken {
            let what = format!("{who} holds {key}, and its fencing token is refused");
            self.journal.broken(Oracle::Resource, what);
        }
        if taken && since < seen.youngest {
            let what = format!("{who} uses {key}, and one who had the lock after it has written");
            self.journal.broken(Oracle::Resource, what);
        }
        if !taken && since < seen.youngest {
            self.journal.count("late writes refused");
        }
        if taken {
            seen.largest = seen.largest.max(Some(token));
            if !reads {
                seen.written = seen.written.max(Some(token));
                seen.youngest = seen.youngest.max(since);
            }
        }
    }
}
