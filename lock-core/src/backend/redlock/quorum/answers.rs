//! Combines the answers of the nodes into the single answer that the caller receives.

use std::fmt::Write;
use std::time::Duration;

use super::ledger::Slot;
use super::votes::{Vote, majority};
use crate::backend::{Attempt, FencingToken, Grant, Held};
use crate::error::{LockError, LockErrorKind, Result};
use crate::owner::OwnerRecord;

/// The answer of one node to an attempt.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) answer: Result<Attempt>,
    /// The [`Slot`] of the request, held until the answer is counted or its grant is released; `None` if the node
    /// received no request.
    pub(super) slot: Option<Slot>,
}

impl Reply {
    /// Creates the answer for a node that received no request.
    pub(super) fn nothing(why: &'static str) -> Self {
        // This error is not ambiguous: a node that received no request needs no release.
        let error = LockError::new(LockErrorKind::Unavailable, why).nothing_taken();
        Self { answer: Err(error), slot: None }
    }

    pub(super) fn vote(&self) -> Vote {
        match &self.answer {
            Ok(Attempt::Granted(_)) => Vote::Granted,
            Ok(Attempt::Held(_)) => Vote::Held,
            // A temporary error does not describe the key. If it counted as held, a caller could wait for a holder that
            // does not exist.
            Err(error) if error.is_temporary() => Vote::Unavailable,
            Err(_) => Vote::Refused,
        }
    }

    /// Returns whether the node has granted the claim, or may have granted it.
    pub(super) fn may_be_taken(&self) -> bool {
        match &self.answer {
            Ok(Attempt::Granted(_)) => true,
            Ok(Attempt::Held(_)) => false,
            // A request without an answer may have been executed, so its node also gets a release.
            Err(error) => error.is_ambiguous(),
        }
    }
}

pub(super) fn grants(answers: &[Option<Reply>]) -> Vec<Grant> {
    let grant = |said: &Reply| match &said.answer {
        Ok(Attempt::Granted(grant)) => Some(*grant),
        _ => None,
    };
    answers.iter().flatten().filter_map(grant).collect()
}

/// Returns the largest token and the number of nodes that sent it, if a majority of the nodes sent a token with the
/// grant.
pub(super) fn largest_token(nodes: usize, grants: &[Grant]) -> Option<(FencingToken, usize)> {
    let tokens: Vec<_> = grants.iter().filter_map(|grant| grant.fence).collect();
    // Tokens of fewer nodes than a majority prove nothing: the node that stores the previous owner's token may be
    // missing.
    let largest = tokens.iter().copied().max().filter(|_| tokens.len() >= majority(nodes))?;
    Some((largest, tokens.iter().filter(|token| **token == largest).count()))
}

/// Merges the answers *held* into one answer for the caller. `granted` is the number of other nodes that granted the
/// claim.
///
/// - The holder is the owner that most nodes name. If several owners are named equally often, the first of them counts.
/// - The remaining time ends when so many leases have expired that their nodes and the nodes that granted the claim are
///   a majority.
/// - `own` is set if a majority reports that the holder may hand off to this claim, because a majority decides which
///   owner has the key.
pub(super) fn merge(nodes: usize, held: &[Held], granted: usize) -> Held {
    let mut remaining: Vec<Duration> = held.iter().filter_map(|held| held.remaining).collect();
    remaining.sort_unstable();
    let missing = majority(nodes).saturating_sub(granted).saturating_sub(1);
    let own = held.iter().filter(|held| held.own).count() >= majority(nodes);
    let waiters = held.iter().filter_map(|held| held.waiters).max();
    let holder = most_named(held);
    // The key and the flag `kept` come from an answer that names this holder.
    let named = |one: &&Held| holder.is_some() && one.holder == holder;
    let (key, kept) = held.iter().find(named).map_or((None, false), |one| (one.key.clone(), one.kept));
    Held { remaining: remaining.get(missing).copied(), holder, waiters, own, key, kept, ..Held::default() }
}

fn most_named(held: &[Held]) -> Option<OwnerRecord> {
    let times =
        |record: &OwnerRecord| held.iter().filter(|held| held.holder.as_ref() == Some(record)).count();
    let records = held.iter().filter_map(|held| held.holder.as_ref());
    // The records are reversed, because `max_by_key` returns the last of equal elements, and the first should count.
    records.rev().max_by_key(|record| times(record)).cloned()
}

/// Returns the error of a call without a majority. Its text quotes the error of every node that failed.
pub(super) fn no_quorum(nodes: usize, what: &str, failures: Vec<(&str, Option<LockError>)>) -> LockError {
    let (failed, need) = (failures.len(), majority(nodes));
    let mut detail = format!("{failed} of {nodes} nodes did not {what}, {need} are needed");
    // The times after which failed nodes vote again, as far as they announced them. When `missing` of them are back,
    // there is a majority.
    let mut back: Vec<Duration> =
        failures.iter().filter_map(|(_, error)| error.as_ref()?.retry_after()).collect();
    back.sort_unstable();
    let missing = need.saturating_sub(nodes - failed).max(1);
    let retry_after = back.get(missing - 1).copied();
    let (mut source, mut separator) = (None, ": ");
    for (name, error) in failures {
        let text = match error.as_ref().map(LockError::detail) {
            None => "no answer in time",
            Some("") => "no reason given",
            Some(text) => text,
        };
        let _ = write!(detail, "{separator}`{name}`: {text}");
        separator = "; ";
        source = source.or(error);
    }
    let error = LockError::new(LockErrorKind::NoQuorum, detail).with_retry_after(retry_after);
    match source {
        Some(source) => error.with_source(source),
        None => error,
    }
}

/// Returns the error of a call that too many nodes refused permanently: the first refusal.
pub(super) fn refusal(failures: Vec<(&str, Option<LockError>)>) -> LockError {
    let mut errors = failures.into_iter().filter_map(|(_, error)| error);
    let refusal = errors.find(|error| !error.is_temporary()).expect("BUG: more than half refused");
    // That one node took nothing proves nothing about the other nodes.
    refusal.ambiguous()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::owner::Identity;

    fn held(label: &'static str, millis: u64, own: bool) -> Held {
        let identity = Arc::new(Identity::of_this_process("test"));
        let holder = (!label.is_empty()).then(|| OwnerRecord::new(identity, Some(label.into())));
        let remaining = (millis > 0).then(|| Duration::from_millis(millis));
        Held { remaining, holder, own, ..Held::default() }
    }

    /// Returns the equal answers of several nodes about one holder.
    fn on_nodes(nodes: usize, held: &Held) -> Vec<Held> {
        vec![held.clone(); nodes]
    }

    #[test]
    fn the_answer_is_about_the_holder_that_most_nodes_name() {
        let (a, b) = (held("a", 500, true), held("b", 300, false));
        let label = |merged: &Held| merged.holder.as_ref().and_then(OwnerRecord::label).map(str::to_owned);
        // Columns: (nodes, held by a, held by b, granted), (holder, remaining time, own).
        let table = [
            ((3, 2, 1, 0), ("a", 500, true)),
            ((3, 1, 2, 0), ("b", 300, false)),
            ((3, 1, 1, 1), ("a", 300, false)),
            ((3, 2, 0, 1), ("a", 500, true)),
            ((5, 3, 2, 0), ("a", 500, true)),
            ((5, 2, 3, 0), ("b", 300, false)),
            ((5, 2, 2, 1), ("a", 300, false)),
            ((1, 0, 1, 0), ("b", 300, false)),
        ];
        for ((nodes, by_a, by_b, granted), (holder, remaining, own)) in table {
            let all = [on_nodes(by_a, &a), on_nodes(by_b, &b)].concat();
            let merged = merge(nodes, &all, granted);
            assert_eq!(label(&merged).as_deref(), Some(holder), "{nodes} {by_a} {by_b} {granted}");
            assert_eq!(
                merged.remaining,
                Some(Duration::from_millis(remaining)),
                "{nodes} {by_a} {by_b} {granted}"
            );
            assert_eq!(merged.own, own, "{nodes} {by_a} {by_b} {granted}");
        }
    }

    #[test]
    fn what_the_nodes_do_not_know_is_not_made_up() {
        let merged = merge(3, &[held("", 0, false), held("", 100, false)], 0);
        assert_eq!(
            (merged.remaining, merged.holder),
            (None, None),
            "two leases have to end, and one is not known"
        );
        assert_eq!((merged.position, merged.queued_at), (None, None), "there is no queue");
    }

    #[test]
    fn another_try_makes_sense_when_a_majority_is_back() {
        let away = |millis: u64| {
            let error = LockError::new(LockErrorKind::Unavailable, "quarantined");
            ("a", Some(error.with_retry_after((millis > 0).then(|| Duration::from_millis(millis)))))
        };
        // Columns: nodes, times until the failed nodes return (0: unknown), time until there is a majority.
        let table: &[(usize, &[u64], Option<u64>)] = &[
            (3, &[500, 300], Some(300)),
            (3, &[500, 300, 400], Some(400)),
            (3, &[500, 0], Some(500)),
            (3, &[0, 0], None),
            (3, &[500, 0, 0], None),
            (5, &[500, 100, 300], Some(100)),
            (1, &[700], Some(700)),
        ];
        for (nodes, failures, expected) in table {
            let error = no_quorum(*nodes, "vote", failures.iter().copied().map(away).collect());
            assert_eq!(error.retry_after(), expected.map(Duration::from_millis), "{nodes} {failures:?}");
        }
    }

    #[test]
    fn the_text_names_the_nodes_and_what_each_said() {
        let refused = LockError::new(LockErrorKind::Unavailable, "connection refused");
        let error = no_quorum(3, "answer", vec![("a", Some(refused)), ("b", None)]);
        assert_eq!(
            error.to_string(),
            "no quorum: 2 of 3 nodes did not answer, 2 are needed: `a`: connection refused; `b`: no answer in time"
        );
        assert!(error.is_temporary() && std::error::Error::source(&error).is_some());
    }

    #[test]
    fn a_token_needs_a_majority() {
        let sent = crate::clock::Clock::Suspend.now();
        let grant = |token: u64| {
            let fence = (token > 0).then(|| FencingToken::new(token));
            Grant::new(sent, Duration::from_secs(1)).with_fence(fence)
        };
        let table = [
            (vec![5, 7], Some((7, 1))),
            (vec![7, 7], Some((7, 2))),
            (vec![5, 0], None),
            (vec![5, 0, 7], Some((7, 1))),
            (vec![7], None),
        ];
        for (tokens, expected) in table {
            let grants: Vec<_> = tokens.iter().copied().map(grant).collect();
            let largest = largest_token(3, &grants).map(|(token, count)| (token.get(), count));
            assert_eq!(largest, expected, "{tokens:?}");
        }
    }
}
