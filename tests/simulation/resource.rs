//! What the locks protect, as it should be built: it refuses fencing tokens that are smaller than one it has seen.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use lock_core::FencingToken;

use crate::journal::Journal;

/// One resource for each key. No fault is done to it.
#[derive(Clone)]
pub(crate) struct Resource {
    largest: Rc<RefCell<BTreeMap<String, FencingToken>>>,
    journal: Journal,
}

impl Resource {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { largest: Rc::default(), journal }
    }

    /// A write under the lock `key`. `held` says whether the lock is certainly the writer's: then a refusal is wrong, for
    /// it says that somebody after it has had the lock already.
    pub(crate) fn write(&self, who: &str, key: &str, token: FencingToken, held: bool) {
        let mut all = self.largest.borrow_mut();
        let largest = all.entry(key.to_owned()).or_insert(token);
        let accepted = token >= *largest;
        *largest = token.max(*largest);
        self.journal.note(who, format_args!("writes to {key}, held: {held}, accepted: {accepted}"));
        if held && !accepted {
            self.journal.broken(format!("{who} holds {key}, and its fencing token is refused"));
        }
    }
}
