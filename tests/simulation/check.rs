//! The conditions that every history must meet.

use std::collections::BTreeMap;
use std::fmt;

use lock_core::backend::Mode;
use lock_core::testkit::history::{self, Hold};

use crate::audit::{Look, is_lock};
use crate::journal::Journal;
use crate::plan::Plan;

/// The check that notices an error. The first variants see only what the users of locks see. The last variants see the
/// data and the actions of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Oracle {
    /// Two holds that exclude each other overlapped.
    Overlap,
    /// The fencing tokens of one key do not grow from grant to grant.
    TokenOrder,
    /// The resource refuses a holder, or accepts a write of an earlier user after one of the next user.
    Resource,
    /// A client gets an answer that it must never get.
    Answers,
    /// A client uses a hold that a majority of the servers does not back.
    Majority,
    /// A server did something that it must never do, or a request made it do so.
    Servers,
    /// At the end a server has a lock that no client holds, or that was never released.
    Remains,
}

/// A violation of one of the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) by: Oracle,
    pub(crate) what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.by, self.what)
    }
}

/// The violations of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<Wrong>,
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// Checks a run by its journal and by the data on the servers at its end.
pub(crate) fn judge(journal: &Journal, left: &BTreeMap<String, Look>, plan: &Plan) -> Verdict {
    let mut wrong = journal.all_broken();
    let holds = journal.holds();
    let unfenced: Vec<Hold> = holds.iter().map(|hold| Hold { fence: None, ..hold.clone() }).collect();
    if let Err(violation) = history::check(&unfenced) {
        wrong.push(Wrong { by: Oracle::Overlap, what: violation.to_string() });
    }
    wrong.extend(tokens_in_order(&holds).map(|what| Wrong { by: Oracle::TokenOrder, what }));
    let remains = |what| Wrong { by: Oracle::Remains, what };
    wrong.extend(journal.owners(|owners| owners.forgotten(left.len() / 2 + 1)).into_iter().map(remains));
    for (server, look) in left {
        for (key, seen) in look {
            let name = String::from_utf8_lossy(key);
            if seen.expires.is_none() && key != b"lock:voter" {
                wrong.push(remains(format!("{server}: {name} would stay for ever")));
            } else if is_lock(key) && !plan.prolongs_leases(server) {
                wrong.push(remains(format!("{server}: {name} is locked at the end, and nobody holds it")));
            }
        }
    }
    Verdict { wrong }
}

/// Checks that the tokens of one key grow from grant to grant. Simultaneous readers may have the same token, or the
/// later reader a smaller one. A downgraded writer keeps its token.
fn tokens_in_order(holds: &[Hold]) -> Option<String> {
    let mut holds: Vec<&Hold> = holds.iter().filter(|hold| hold.fence.is_some()).collect();
    holds.sort_by_key(|hold| hold.acquired);
    // The map has two holds for each key: the one with the largest token, and the one with the largest token among
    // exclusive holds.
    let mut largest: BTreeMap<&str, (Option<&Hold>, Option<&Hold>)> = BTreeMap::new();
    for hold in holds {
        let (of_all, of_writers) = largest.entry(&hold.key).or_default();
        let alone = hold.mode == Mode::Exclusive;
        let before = if alone { *of_all } else { *of_writers };
        let itself = |before: &Hold| before.asked == hold.asked && before.worker == hold.worker;
        if let Some(before) = before.filter(|before| before.fence >= hold.fence && !itself(before)) {
            return Some(format!("a later grant has no larger token: {before:?}, then {hold:?}"));
        }
        if of_all.is_none_or(|before| before.fence < hold.fence) {
            *of_all = Some(hold);
        }
        if alone {
            *of_writers = Some(hold);
        }
    }
    None
}
