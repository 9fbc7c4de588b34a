//! Tries to acquire the keys of a claim. The module `claim_sites` explains the method for several keys.

use super::claim_sites::ClaimSites;
use super::error::Failure;
use super::fence::at_birth;
use super::line::Line;
use super::places::{Seen, Site, deleted};
use super::record::record;
use super::session::{ended, now};
use crate::backend::remote::join_all;
use crate::backend::{Ask, Attempt, Grant, Mode};
use crate::clock::Moment;
use crate::error::LockErrorKind;

/// The largest size of one transaction, in bytes. The servers accept requests of 1 MB (`jute.maxbuffer`).
const MOST: usize = 1_000_000;
/// The size of a creation without its path and its data: lengths, flags, access control.
const OVERHEAD: usize = 128;

/// The state of the claim in the queues of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The key at this index is in use in this mode, which excludes the claim.
    Clashes(usize, Mode),
    /// Another claim is before this claim in the queue at this index.
    Held(usize),
    /// Every key is free or held by the claim, and at least one node is missing.
    Free,
    /// The claim holds every key.
    Ours,
}

/// A queue, and the node of the claim in it.
pub(super) struct Surveyed {
    pub(super) seen: Seen,
    pub(super) own: Option<String>,
}

impl ClaimSites<'_> {
    /// Attempts the claim once. Repeats requests whose answers were lost with the connection. This function sets no
    /// deadline.
    pub(super) async fn attempt(&self, ask: Ask) -> Result<Attempt, Failure> {
        self.check_size()?;
        let answer = self.attempt_until_answered(ask).await;
        // If the claim may have a node, the failure is in doubt, because the node stays until the claim is released. If
        // the session is over, it is unknown whether a node exists.
        let has_none = self.sites.iter().all(|site| matches!(site.entry(), Ok(None)));
        answer.map_err(|failure| if has_none { failure } else { failure.in_doubt() })
    }

    fn check_size(&self) -> Result<(), Failure> {
        let data = record(self.claim).len();
        let bytes: usize = self.sites.iter().map(|site| site.prefix.len() + data + OVERHEAD).sum();
        if bytes <= MOST {
            return Ok(());
        }
        let text = format!(
            "these keys take {bytes} bytes in one transaction, and the servers take 1 MB: ask for fewer keys"
        );
        Err(Failure::new(LockErrorKind::InvalidRequest, text))
    }

    async fn attempt_until_answered(&self, ask: Ask) -> Result<Attempt, Failure> {
        let (sent, mut doubt, mut has_waited) = (now(), false, false);
        for site in &self.sites {
            has_waited |= site.entry()?.is_some_and(|entry| entry.node.is_some());
        }
        loop {
            let attempt = match &self.sites[..] {
                [site] => site.attempt_once(self, ask, sent, doubt, has_waited).await,
                _ => self.attempt_once(ask, doubt).await,
            };
            match attempt {
                Ok(attempt) => return Ok(attempt),
                Err(failure) => self.session.recover(failure).await?,
            }
            doubt = true;
        }
    }

    /// Sends the requests of one attempt for several keys. After an error, it may be unknown whether the claim has nodes.
    async fn attempt_once(&self, ask: Ask, doubt: bool) -> Result<Attempt, Failure> {
        let sent = now();
        let mut surveyed = Vec::with_capacity(self.sites.len());
        for survey in self.each(|site| site.survey(doubt)).await {
            surveyed.push(survey?);
        }
        if self.found(&surveyed) != Found::Free {
            return self.answer(ask, sent, &surveyed, None).await;
        }
        let sent = now();
        let number = self.create_missing(&mut surveyed).await?;
        self.session.prove(sent);
        self.answer(ask, sent, &surveyed, number).await
    }

    fn found(&self, surveyed: &[Surveyed]) -> Found {
        let place =
            |Surveyed { seen, own }: &Surveyed| own.as_ref().and_then(|own| seen.line.place_named(own));
        found(self.claim.mode, surveyed.iter().map(|one| (&one.seen.line, place(one))))
    }

    /// Returns the answer for the state that was found. A claim that does not get every key deletes its nodes in all
    /// queues. Only the keys that were granted to its owner before stay locked, because the caller relies on them.
    async fn answer(
        &self,
        ask: Ask,
        sent: Moment,
        surveyed: &[Surveyed],
        created: Option<i64>,
    ) -> Result<Attempt, Failure> {
        let found = self.found(surveyed);
        if found == Found::Ours {
            if let Some(site) = self.sites.first().filter(|_| created.is_none()) {
                self.session.prove_recently(&site.config.base).await?;
            }
            let changed: Vec<i64> = surveyed.iter().map(|line| line.seen.changed).collect();
            return self.granted(sent, &changed, created, None).await;
        }
        self.leave(surveyed).await?;
        match found {
            Found::Clashes(at, with) => match (self.sites.get(at), self.claim.keys().nth(at)) {
                (Some(site), Some(key)) => Err(site.in_use(with).on_key(key)),
                _ => Err(deleted()),
            },
            Found::Held(at) => match (self.sites.get(at), surveyed.get(at), self.claim.keys().nth(at)) {
                (Some(site), Some(line), Some(key)) => {
                    let held = site.held(ask, &line.seen.line, None).await?;
                    Ok(Attempt::Held(held.on_key(self.claim, key)))
                }
                _ => Err(deleted()),
            },
            Found::Free | Found::Ours => Err(deleted()),
        }
    }

    /// Returns the grant. Its lease is the time for which the session certainly lives. `changed` has the last change of
    /// each queue, and `created` is the number of the change that created all nodes, if this attempt created them.
    pub(super) async fn granted(
        &self,
        sent: Moment,
        changed: &[i64],
        created: Option<i64>,
        waiters: Option<usize>,
    ) -> Result<Attempt, Failure> {
        let token = created.and_then(|created| at_birth(created, changed));
        let are_here = self.session.with(|grants| {
            self.sites.iter().for_each(|site| grants.was_busy(&site.directory, false));
            self.sites.iter().filter(|site| grants.granted(&site.prefix)).count()
        })?;
        if are_here != self.sites.len() {
            return Err(ended());
        }
        let token = match self.known_fence(token)? {
            None if self.claim.fencing => self.fence().await?,
            token => token,
        };
        // If the request was a read, the last proof of the session may be older than the request, and may no longer
        // suffice.
        let certain = self.session.certain(sent);
        if certain.is_zero() {
            return Err(Failure::new(LockErrorKind::Unavailable, "the session is not certain").in_doubt());
        }
        Ok(Attempt::Granted(Grant::new(sent, certain).with_fence(token).with_waiters(waiters)))
    }

    /// Deletes the nodes of the claim at keys that are not granted to its owner.
    async fn leave(&self, surveyed: &[Surveyed]) -> Result<(), Failure> {
        let mut nodes = Vec::new();
        for (site, line) in self.sites.iter().zip(surveyed) {
            if site.entry()?.is_some_and(|entry| !entry.is_granted()) {
                nodes.push((site, line.own.as_deref()));
            }
        }
        let deletions = nodes.iter().map(|(site, own)| async move {
            match own {
                Some(own) => site.delete(own).await.map(|_| ()),
                None => Ok(()),
            }
        });
        for deleted in join_all(deletions).await {
            deleted?;
        }
        self.session.with(|grants| nodes.iter().for_each(|(site, _)| grants.forget(&site.prefix)))
    }
}

impl Site<'_> {
    /// Reads the queue of a key, and finds the node of the claim in it.
    async fn survey(&self, doubt: bool) -> Result<Surveyed, Failure> {
        let Some(entry) = self.entry()? else {
            return Ok(Surveyed { seen: self.look_without_node().await?, own: None });
        };
        self.claim.mark_sent();
        let certain = entry.node.is_some() && !doubt;
        let (seen, own) = self.look_for_own(entry.node, certain).await?;
        self.session.with(|grants| match &own {
            Some(own) => grants.has_node(&self.prefix, own),
            None => grants.forget(&self.prefix),
        })?;
        Ok(Surveyed { seen, own })
    }
}

/// Returns the state of the claim, given the queue of each key and the place of the claim in it.
fn found<'l>(mode: Mode, lines: impl Iterator<Item = (&'l Line, Option<usize>)>) -> Found {
    let (mut held, mut lacks) = (None, false);
    for (at, (line, place)) in lines.enumerate() {
        match (place, line.clash(mode)) {
            (Some(place), _) if line.holds(place) => {}
            (_, Some(with)) => return Found::Clashes(at, with),
            (None, None) if line.admits(mode) => lacks = true,
            _ => held = held.or(Some(at)),
        }
    }
    match held {
        Some(at) => Found::Held(at),
        None if lacks => Found::Free,
        None => Found::Ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_none() {
        let line = |kinds: &[&str]| {
            let name = |(at, kind): (usize, &&str)| {
                format!("_c_{at:08x}-89ab-cdef-0123-456789abcdef-{kind}{at:010}")
            };
            Line::of_children(kinds.iter().enumerate().map(name).collect())
        };
        let (free, one, two) = (line(&[]), line(&["lock-"]), line(&["lock-", "lock-"]));
        let permit = line(&["permit-2-"]);
        let permits = Mode::Permit { of: 2 };
        for (lines, expected) in [
            ([(&one, Some(0)), (&two, Some(0))], Found::Ours),
            ([(&free, None), (&free, None)], Found::Free),
            // One of the keys was granted to the owner before.
            ([(&one, Some(0)), (&free, None)], Found::Free),
            ([(&one, Some(0)), (&two, Some(1))], Found::Held(1)),
            ([(&one, None), (&two, None)], Found::Held(0)),
            ([(&one, None), (&permit, None)], Found::Clashes(1, permits)),
        ] {
            assert_eq!(found(Mode::Exclusive, lines.into_iter()), expected, "{lines:?}");
        }
    }
}
