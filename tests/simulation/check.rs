//! What must be true of every history.

use std::collections::BTreeMap;

use lock_core::testkit::history::{self, Hold};

use crate::audit::{Look, is_lock};
use crate::journal::Journal;
use crate::plan::Plan;

/// What is wrong with a run; nothing, as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// Judges a run by its journal and by what is left on the servers at its end.
pub(crate) fn judge(journal: &Journal, left: &BTreeMap<String, Look>, plan: &Plan) -> Verdict {
    let mut wrong = journal.all_broken();
    let holds = journal.holds();
    if let Err(violation) = history::check(&holds) {
        wrong.push(violation.to_string());
    }
    wrong.extend(tokens_in_order(&holds));
    wrong.extend(journal.forgotten(left.len() / 2 + 1));
    for (server, look) in left {
        for (key, seen) in look {
            let name = String::from_utf8_lossy(key);
            if seen.expires.is_none() && key != b"lock:voter" {
                wrong.push(format!("{server}: {name} would stay for ever"));
            } else if is_lock(key) && !plan.prolongs_leases(server) {
                wrong.push(format!("{server}: {name} is locked at the end, and nobody holds it"));
            }
        }
    }
    Verdict { wrong }
}

/// The tokens of one key grow from grant to grant.
fn tokens_in_order(holds: &[Hold]) -> Option<String> {
    let mut holds: Vec<&Hold> = holds.iter().filter(|hold| hold.fence.is_some()).collect();
    holds.sort_by(|one, other| (&one.key, one.acquired).cmp(&(&other.key, other.acquired)));
    let mut pairs = holds.windows(2).filter(|pair| pair[0].key == pair[1].key);
    let bad = pairs.find(|pair| pair[0].fence >= pair[1].fence)?;
    Some(format!("a later grant has no larger token: {:?}, then {:?}", bad[0], bad[1]))
}
