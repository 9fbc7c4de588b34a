//! Records the nodes of one session. This module performs no I/O.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::names;
use super::record::data;
use crate::backend::{Claim, FencingToken, Held};
use crate::clock::{self, Moment};
use crate::owner::{Owner, OwnerRecord};

/// The largest number of busy directories that are remembered. A forgotten directory costs only one write.
const BUSY: usize = 1_024;

/// The claims of a session that have a node, or may have one. An owner has one entry for each of its keys. The entry is
/// found by the common [prefix](names::path_prefix) of the paths of its nodes.
#[derive(Debug, Default)]
pub(super) struct Grants {
    entries: BTreeMap<String, Entry>,
    /// The directories whose key was held by another owner at the last request.
    busy: HashSet<String>,
}

/// The entry of a claim. The entry is created before the first request is sent, and exists until the node is certainly
/// deleted.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    /// The owner record in the data of the node.
    record: OwnerRecord,
    /// The name of the node; `None` until an answer contains the name.
    pub(super) node: Option<String>,
    /// When the claim was granted, by the wall clock; `None` while it waits.
    granted: Option<Duration>,
    /// Whether the data of the node contains the time of the grant.
    is_told: bool,
    /// The last fencing token, with the number of hand-offs after which it was made.
    fence: Option<(u64, FencingToken)>,
    removal: Removal,
    /// The node behind which the claim waits. `None` if the claim does not wait, or if the deletion of any node may
    /// serve it.
    pub(super) behind: Option<Behind>,
}

/// The node behind which a claim waits.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    pub(super) node: String,
    /// The answer to the claim's last read of all nodes.
    pub(super) held: Held,
    /// The time until which this answer may be repeated.
    pub(super) fresh_until: Moment,
}

/// Whether the session watches for the deletion of a holder's node by another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    Unwatched,
    Watched,
    /// This process is about to delete the node itself.
    Own,
}

impl Entry {
    pub(super) fn is_granted(&self) -> bool {
        self.granted.is_some()
    }

    pub(super) fn data(&self) -> String {
        data(&self.record, self.granted)
    }
}

impl Grants {
    /// Adds an entry for a claim that is about to be sent, if the claim has none.
    pub(super) fn begin(&mut self, prefix: &str, claim: &Claim) {
        self.entries.entry(prefix.to_owned()).or_insert_with(|| Entry {
            owner: claim.owner,
            record: claim.record.clone(),
            node: None,
            granted: None,
            is_told: false,
            fence: None,
            removal: Removal::Unwatched,
            behind: None,
        });
    }

    pub(super) fn get(&self, prefix: &str) -> Option<&Entry> {
        self.entries.get(prefix)
    }

    pub(super) fn has_node(&mut self, prefix: &str, node: &str) {
        if let Some(entry) = self.entries.get_mut(prefix).filter(|entry| entry.node.as_deref() != Some(node))
        {
            entry.node = Some(node.to_owned());
            (entry.removal, entry.is_told) = (Removal::Unwatched, false);
        }
    }

    /// Records the node behind which a claim waits.
    pub(super) fn waits(&mut self, prefix: &str, behind: Option<Behind>) {
        if let Some(entry) = self.entries.get_mut(prefix) {
            entry.behind = behind;
        }
    }

    /// Records that the data of the node contains the time of the grant.
    pub(super) fn told(&mut self, prefix: &str, node: &str) {
        if let Some(entry) = self.entries.get_mut(prefix).filter(|entry| entry.node.as_deref() == Some(node))
        {
            entry.is_told = true;
        }
    }

    /// Returns the node of a holder that must now be watched. If the node does not contain the time of the grant, also
    /// returns the data that must be written first. Returns `None` if the node is already watched, or must not be
    /// watched.
    pub(super) fn watch(&mut self, prefix: &str) -> Option<(String, Option<String>)> {
        let watchable = |entry: &&mut Entry| entry.is_granted() && entry.removal == Removal::Unwatched;
        let entry = self.entries.get_mut(prefix).filter(watchable)?;
        entry.removal = Removal::Watched;
        Some((entry.node.clone()?, (!entry.is_told).then(|| entry.data())))
    }

    /// Records that the node of a holder is not watched.
    pub(super) fn unwatched(&mut self, path: &str) {
        let entry = names::path_prefix(path).and_then(|prefix| self.entries.get_mut(prefix));
        if let Some(entry) = entry.filter(|entry| entry.removal == Removal::Watched) {
            entry.removal = Removal::Unwatched;
        }
    }

    /// Returns whether any claim of the session is granted.
    pub(super) fn has_holder(&self) -> bool {
        self.entries.values().any(|entry| entry.is_granted())
    }

    /// Records whether this process is about to delete the node of a claim itself.
    pub(super) fn deletes(&mut self, prefix: &str, deletes: bool) {
        if let Some(entry) = self.entries.get_mut(prefix) {
            entry.removal = if deletes { Removal::Own } else { Removal::Unwatched };
        }
    }

    /// Records that another process has deleted the node of a holder. Returns the owner if this ends its grant.
    pub(super) fn removed(&mut self, path: &str) -> Option<Owner> {
        let prefix = names::path_prefix(path)?;
        let entry = self.entries.get(prefix)?;
        let is_its = entry.node.as_deref().is_some_and(|node| path.ends_with(node));
        if !(entry.is_granted() && entry.removal != Removal::Own && is_its) {
            return None;
        }
        self.entries.remove(prefix).map(|entry| entry.owner)
    }

    /// Records a grant. Returns whether the claim has an entry.
    pub(super) fn granted(&mut self, prefix: &str) -> bool {
        let Some(entry) = self.entries.get_mut(prefix) else { return false };
        entry.behind = None;
        entry.granted.get_or_insert_with(clock::wall);
        true
    }

    /// Returns the token of the holder of these keys after `handoffs` hand-offs, and records the new token `made`. The
    /// first recorded token stays. Keys that were granted one by one have different tokens, and none of these is the
    /// token of all keys.
    pub(super) fn fence(
        &mut self,
        prefixes: &[&str],
        handoffs: u64,
        made: Option<FencingToken>,
    ) -> Option<FencingToken> {
        let fence = |prefix: &&str| Some(self.entries.get(*prefix).filter(|entry| entry.is_granted())?.fence);
        let fences = prefixes.iter().map(fence).collect::<Option<Vec<_>>>()?;
        let first = fences.first().copied().flatten();
        let common = first.filter(|_| fences.iter().all(|fence| *fence == first));
        match (common, made) {
            (Some((of, token)), _) if of == handoffs => Some(token),
            (Some((of, _)), Some(made)) if of > handoffs => Some(made),
            (_, Some(made)) => {
                for prefix in prefixes {
                    if let Some(entry) = self.entries.get_mut(*prefix) {
                        entry.fence = Some((handoffs, made));
                    }
                }
                Some(made)
            }
            (_, None) => None,
        }
    }

    pub(super) fn forget(&mut self, prefix: &str) {
        self.entries.remove(prefix);
    }

    /// Returns the owner of the node at `path`, if the node belongs to this session.
    pub(super) fn owner_of(&self, path: &str) -> Option<Owner> {
        self.entries.get(names::path_prefix(path)?).map(|entry| entry.owner)
    }

    /// Returns the owner record of the node at `path`, if the node belongs to this session.
    pub(super) fn record_of(&self, path: &str) -> Option<OwnerRecord> {
        self.entries.get(names::path_prefix(path)?).map(|entry| entry.record.clone())
    }

    /// Returns whether a claim of this session holds the key of `directory` and may hand it off to `owner`.
    pub(super) fn may_serve(&self, directory: &str, owner: Owner) -> bool {
        self.claims_in(directory).any(|entry| entry.is_granted() && entry.owner.may_hand_off_to(&owner))
    }

    /// Returns whether a claim of this session has a node in `directory`, or may have one.
    pub(super) fn uses(&self, directory: &str) -> bool {
        self.claims_in(directory).next().is_some()
    }

    /// Returns whether a claim of this session has a node in `directory`. If so, the directory exists.
    pub(super) fn has_node_in(&self, directory: &str) -> bool {
        self.claims_in(directory).any(|entry| entry.node.is_some())
    }

    fn claims_in(&self, directory: &str) -> impl Iterator<Item = &Entry> {
        let below = format!("{directory}/");
        let from = self.entries.range(below.clone()..);
        from.take_while(move |(prefix, _)| prefix.starts_with(&below)).map(|(_, entry)| entry)
    }

    /// Records whether another owner held a key at the last request.
    pub(super) fn was_busy(&mut self, directory: &str, busy: bool) {
        if !busy {
            self.busy.remove(directory);
        } else if !self.busy.contains(directory) {
            if self.busy.len() >= BUSY {
                self.busy.clear();
            }
            self.busy.insert(directory.to_owned());
        }
    }

    /// Returns whether another owner held a key at the last request.
    pub(super) fn is_busy(&self, directory: &str) -> bool {
        self.busy.contains(directory)
    }

    /// Removes all entries. Returns the owners of the grants, without duplicates.
    pub(super) fn into_granted(self) -> Vec<Owner> {
        let granted = self.entries.into_values().filter(|entry| entry.is_granted());
        granted.map(|entry| entry.owner).collect::<HashSet<_>>().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::key::Key;
    use crate::owner::{Identity, OwnerSource};

    fn claim(owner: Owner) -> Claim {
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("test")), None);
        Claim::new(Key::new("k").expect("a key"), owner, Duration::from_secs(2), record)
    }

    #[test]
    fn a_holder_has_one_token_and_the_next_of_its_process_another() {
        let (mut grants, owner) = (Grants::default(), OwnerSource::new().expect("random bytes").mint());
        let (prefix, token) = (format!("/k/{}", names::mark(owner)), FencingToken::new);
        let of = [prefix.as_str()];
        grants.begin(&prefix, &claim(owner));
        assert_eq!(grants.fence(&of, 0, Some(token(1))), None, "it waits");
        assert!(grants.granted(&prefix));
        assert_eq!(grants.fence(&of, 0, None), None);
        assert_eq!(grants.fence(&of, 0, Some(token(5))), Some(token(5)));
        // Two requests make a token for the same holder. The first recorded token is the token of both.
        assert_eq!(grants.fence(&of, 0, Some(token(6))), Some(token(5)));
        assert_eq!(grants.fence(&of, 1, None), None);
        assert_eq!(grants.fence(&of, 1, Some(token(9))), Some(token(9)));
        grants.begin(&prefix, &claim(owner));
        assert_eq!(grants.fence(&of, 1, None), Some(token(9)), "it is the same claim");
    }

    #[test]
    fn only_who_holds_this_key_hands_it_off() {
        let (mut grants, source) = (Grants::default(), OwnerSource::new().expect("random bytes"));
        let (holder, waits) = (source.mint(), source.mint());
        let stranger = OwnerSource::new().expect("random bytes").mint();
        let prefix = format!("/k/{}", names::mark(holder));
        grants.begin(&prefix, &claim(holder));
        assert!(!grants.may_serve("/k", waits), "it waits itself");
        assert!(grants.granted(&prefix) && grants.may_serve("/k", waits));
        assert!(!grants.may_serve("/k", stranger), "another process");
        for other in ["/", "/j", "/k2", "/k/k"] {
            assert!(!grants.may_serve(other, waits), "{other}");
        }
        grants.forget(&prefix);
        assert!(!grants.may_serve("/k", waits));
    }

    #[test]
    fn the_token_of_several_keys_is_none_of_their_single_ones() {
        let (mut grants, owner) = (Grants::default(), OwnerSource::new().expect("random bytes").mint());
        let prefixes = ["a", "b"].map(|key| format!("/{key}/{}", names::mark(owner)));
        let ([a, b], token) = (prefixes.each_ref().map(String::as_str), FencingToken::new);
        for prefix in [a, b] {
            grants.begin(prefix, &claim(owner));
        }
        assert!(grants.granted(a));
        assert_eq!(grants.fence(&[a], 0, Some(token(5))), Some(token(5)));
        assert_eq!(grants.fence(&[a, b], 0, Some(token(7))), None, "it does not hold all keys");
        assert!(grants.granted(b));
        assert_eq!(grants.fence(&[b], 0, Some(token(6))), Some(token(6)));
        assert_eq!(grants.fence(&[a, b], 0, None), None);
        assert_eq!(grants.fence(&[a, b], 0, Some(token(9))), Some(token(9)));
        assert_eq!(grants.fence(&[a, b], 0, Some(token(11))), Some(token(9)), "the first stays");
        grants.forget(b);
        assert_eq!(grants.fence(&[a, b], 0, None), None);
    }

    #[test]
    fn only_a_holder_whose_node_another_deleted_has_lost_its_grant() {
        let (mut grants, owner) = (Grants::default(), OwnerSource::new().expect("random bytes").mint());
        let mark = names::mark(owner);
        let prefix = format!("/k/{mark}");
        let [writer, reader] = ["lock-0000000001", "__READ__0000000001"].map(|name| format!("{mark}{name}"));
        let path = |node: &str| format!("/k/{node}");
        grants.begin(&prefix, &claim(owner));
        grants.has_node(&prefix, &writer);
        assert_eq!((grants.watch(&prefix), grants.removed(&path(&writer))), (None, None), "it waits");
        assert!(grants.granted(&prefix));
        let (watched, data) = grants.watch(&prefix).expect("it holds");
        assert_eq!(watched, writer);
        assert!(data.is_some_and(|data| data.contains(" granted=")), "nobody was told");
        assert_eq!(grants.watch(&prefix), None, "once");
        // A downgrade deletes the watched node.
        grants.deletes(&prefix, true);
        assert_eq!((grants.watch(&prefix), grants.removed(&path(&writer))), (None, None), "its own deletion");
        grants.has_node(&prefix, &reader);
        grants.deletes(&prefix, false);
        assert_eq!(grants.removed(&path(&writer)), None, "it has another node now");
        grants.told(&prefix, &writer);
        grants.told(&prefix, &reader);
        assert_eq!(grants.watch(&prefix), Some((reader.clone(), None)));
        assert_eq!(grants.removed(&path(&reader)), Some(owner));
        assert_eq!(grants.removed(&path(&reader)), None, "once");
        assert!(grants.get(&prefix).is_none());
    }

    #[test]
    fn some_busy_keys_are_remembered() {
        let mut grants = Grants::default();
        for number in 0..=BUSY {
            grants.was_busy(&number.to_string(), true);
            assert!(grants.is_busy(&number.to_string()) && grants.busy.len() <= BUSY);
        }
        assert!(!grants.is_busy("0"), "there were too many");
        grants.was_busy(&BUSY.to_string(), false);
        assert!(!grants.is_busy(&BUSY.to_string()));
    }

    #[test]
    fn the_end_names_the_holders_and_not_the_waiters() {
        let (mut grants, source) = (Grants::default(), OwnerSource::new().expect("random bytes"));
        let [holds, waits, left] = [(); 3].map(|()| source.mint());
        let prefix = |key: &str, owner| format!("/{key}/{}", names::mark(owner));
        for owner in [holds, waits, left] {
            grants.begin(&prefix("k", owner), &claim(owner));
        }
        assert!(grants.granted(&prefix("k", holds)) && grants.granted(&prefix("k", left)));
        grants.forget(&prefix("k", left));
        assert!(!grants.granted(&prefix("k", left)));
        let node = format!("{}lock-0000000001", names::mark(waits));
        grants.has_node(&prefix("k", waits), &node);
        assert_eq!(grants.owner_of(&format!("/k/{node}")), Some(waits));
        assert!(
            grants.record_of(&format!("/k/{node}")).is_some()
                && grants.record_of("/k/lock-0000000001").is_none()
        );
        // The same grant has another key.
        grants.begin(&prefix("l", holds), &claim(holds));
        assert!(grants.granted(&prefix("l", holds)));
        assert_eq!(grants.into_granted(), [holds]);
    }
}
