//! A hold from the view of its client.

use std::cell::Cell;
use std::time::Duration;

use lock_core::backend::Mode;
use lock_core::testkit::history::Hold;
use lock_core::{FencingToken, Result};

use crate::check::Oracle;
use crate::client::Client;
use crate::journal::now;
use crate::owners;
use crate::resource::Use;
use crate::turn::Turn;

/// A message may be executed later than it seems by this much, because each machine moves in its own steps.
const STEP: Duration = Duration::from_millis(4);

/// A current hold. Its drop ends the hold in the journal, even in a crash.
pub(crate) struct Held<'a> {
    client: &'a Client,
    keys: &'static [&'static str],
    mode: Mode,
    pub(crate) turn: owners::Turn,
    /// The time at which the hold began in this mode.
    since: Duration,
    ttl: Duration,
    pub(crate) fence: Cell<Option<FencingToken>>,
    /// The time at which the hold expires without a renewal.
    until: Option<Duration>,
    /// The time of the last use of the hold.
    used: Cell<Duration>,
    /// The number of pauses of the process until that use.
    stops: usize,
    /// Whether a downgrade is in progress, so that the mode is unknown.
    between: bool,
    ended: bool,
}

/// A hold that may have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) keys: &'static [&'static str],
    pub(crate) token: FencingToken,
    pub(crate) reads: bool,
    pub(crate) since: Duration,
}

impl<'a> Held<'a> {
    pub(crate) fn begin(client: &'a Client, turn: &'a Turn, asked: Duration, left: Duration) -> Self {
        let since = now();
        let (name, keys, renewed) = (&client.name, turn.ask.keys(), turn.renewed);
        let mode = turn.ask.mode();
        client.journal.note(name, format_args!("HOLDS {keys:?}, {mode:?}, for {left:?}, renewed: {renewed}"));
        client.journal.count(turn.ask.name());
        Self {
            client,
            keys,
            mode,
            turn: owners::Turn { client: name.clone(), asked, granted: since },
            since,
            ttl: turn.ttl,
            fence: Cell::new(None),
            until: (!renewed).then(|| since + left),
            used: Cell::new(since),
            stops: client.stops.get(),
            between: false,
            ended: false,
        }
    }

    /// Records that the client uses the lock and is certain to hold it. The servers must have confirmed the hold.
    pub(crate) fn is_used(&self) {
        self.used.set(now());
        let (majority, since) = (self.client.plan.servers / 2 + 1, now().saturating_sub(self.ttl + STEP));
        if !self.client.journal.owners(|owners| owners.is_backed(&self.turn, majority, since)) {
            let (name, keys) = (&self.client.name, self.keys);
            let what = format!("{name} uses {keys:?} without a majority within its ttl");
            self.client.journal.broken(Oracle::Majority, what);
        }
    }

    /// Writes to the protected resource. `held` is whether the client certainly holds the lock.
    pub(crate) fn write(&self, held: bool) {
        // If a grant is the result of an eviction, no promise applies to it.
        let Some(Late { keys, token, reads, since }) = self.late() else { return };
        for key in keys {
            let who = &self.client.name;
            self.client.resource.serve(Use { who, key, token, reads, since, held });
        }
    }

    pub(crate) fn has_token(&self, token: &Result<FencingToken>) {
        if let Ok(token) = *token {
            self.client.journal.note(&self.client.name, format_args!("has a token for {:?}", self.keys));
            self.fence.set(Some(token));
        }
    }

    /// Returns the data that the client has if it has not noticed the end of its hold.
    pub(crate) fn late(&self) -> Option<Late> {
        let token = self.fence.get().filter(|_| !self.is_tainted())?;
        Some(Late { keys: self.keys, token, reads: self.mode == Mode::Shared, since: self.since })
    }

    pub(crate) fn is_tainted(&self) -> bool {
        self.client.journal.owners(|owners| owners.is_tainted(&self.turn))
    }

    /// Records that a downgrade begins.
    pub(crate) fn downgrades(&mut self) {
        self.record(now());
        (self.since, self.mode, self.between) = (now(), Mode::Shared, true);
    }

    /// Records that the holder is now a reader. No other client had the key exclusively since the holder was a writer.
    pub(crate) fn is_downgraded(&mut self, left: Duration) {
        self.client.journal.count("downgrades");
        self.client.journal.note(&self.client.name, format_args!("READS {:?} for {left:?}", self.keys));
        self.between = false;
        self.until = self.until.map(|_| now() + left);
    }

    /// Ends the hold. A lost lock counts as held until its loss is reported, because no other client may have it
    /// before.
    pub(crate) fn end(mut self, how: &str) {
        self.finish(how, now());
    }

    fn finish(&mut self, how: &str, ended: Duration) {
        self.ended = true;
        self.client.journal.note(&self.client.name, format_args!("{how} {:?}", self.keys));
        self.record(ended);
    }

    fn record(&self, ended: Duration) {
        let Client { journal, stops, number, .. } = self.client;
        let stood_still = stops.get() != self.stops;
        if stood_still && self.used.get() + self.ttl < ended {
            journal.count("leases over while a process stood still");
        }
        if self.between {
            return;
        }
        if self.is_tainted() {
            return journal.count("grants of what was thrown away");
        }
        // A paused process got no notification during the pause, so only its actions count.
        let ended = if stood_still { self.used.get() } else { ended };
        let hold = |key: &&str| Hold {
            worker: *number,
            key: (*key).to_owned(),
            mode: self.mode,
            asked: self.turn.asked,
            acquired: self.since,
            ended,
            fence: self.fence.get(),
        };
        self.keys.iter().map(hold).for_each(|hold| journal.record(hold));
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let now = now();
            self.client.journal.untold(&self.turn);
            self.finish("ends without a word with", self.until.map_or(now, |until| until.min(now)));
        }
    }
}
