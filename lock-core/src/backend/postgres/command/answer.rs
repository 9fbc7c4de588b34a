//! Reads the answers of the SQL functions.

use std::time::Duration;

use tokio_postgres::Row;

use crate::backend::conflict::{self, Use};
use crate::backend::postgres::error::Failure;
use crate::backend::{Claim, FencingToken, Grant, Held};
use crate::clock::Moment;
use crate::error::LockErrorKind;
use crate::key::Key;
use crate::owner::OwnerRecord;

/// A row of the type `answer`; see tables.sql.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) verdict: i32,
    /// The server's time, in us.
    now: i64,
    fence: Option<i64>,
    pub(super) waiting: Option<i32>,
    left: Option<i64>,
    record: Option<String>,
    place: Option<i32>,
    pub(super) own: bool,
    queued: bool,
    mode: Option<String>,
    number: Option<i32>,
    /// The time at which the request was sent.
    pub(super) sent: Moment,
}

impl Answer {
    /// Reads an answer from an array of texts; see `flat` in shared.sql. A missing element counts as null.
    pub(super) fn read(rows: &[Row], sent: Moment) -> Result<Self, Failure> {
        let [row] = rows else { return Err(Failure::unexpected("not one row")) };
        let columns: Vec<Option<String>> = row.try_get(0).map_err(|_| Failure::unexpected("another type"))?;
        Self::of_columns(columns, sent).ok_or_else(|| Failure::unexpected("no number"))
    }

    fn of_columns(columns: Vec<Option<String>>, sent: Moment) -> Option<Self> {
        let mut columns = columns.into_iter();
        let mut column = || columns.next().flatten();
        Some(Self {
            verdict: number(column())??,
            now: number(column())?.unwrap_or(0),
            fence: number(column())?,
            waiting: number(column())?,
            left: number(column())?,
            record: column(),
            place: number(column())?,
            own: column().is_some_and(|own| own == "true"),
            queued: column().is_some_and(|queued| queued == "true"),
            mode: column(),
            number: number(column())?,
            sent,
        })
    }

    /// Reads a grant. Its lease is the whole ttl of the claim.
    pub(super) fn granted(&self, claim: &Claim) -> Result<Grant, Failure> {
        let fence = self.fence.map(|_| self.fence_of(claim)).transpose()?;
        let waiters = self.waiting.and_then(|waiting| usize::try_from(waiting).ok());
        Ok(Grant::new(self.sent, claim.ttl).with_fence(fence).with_waiters(waiters))
    }

    /// Reads a fencing token. Marks the claim as fenced. If the token is ahead of the server's time, also marks this in
    /// the claim.
    pub(super) fn fence_of(&self, claim: &Claim) -> Result<FencingToken, Failure> {
        let number = self.fence.and_then(|number| u64::try_from(number).ok());
        let number = number.ok_or_else(|| Failure::unexpected("no fencing token"))?;
        claim.mark_fenced();
        // If a token is ahead of the clock, the clock was set back. The process must then not derive further tokens
        // from this token.
        if self.fence > Some(self.now) {
            claim.mark_fence_ahead();
        }
        Ok(FencingToken::new(number))
    }

    /// Reads the holder of the key, and the position in the queue.
    pub(super) fn held(self, claim: &Claim) -> Held {
        let key = self.key_of(claim).cloned();
        let count = |number: Option<i32>| number.and_then(|number| usize::try_from(number).ok());
        Held {
            remaining: self.left.and_then(|left| u64::try_from(left).ok()).map(Duration::from_micros),
            holder: self.record.as_deref().and_then(OwnerRecord::from_record),
            foreign: false,
            waiters: count(self.waiting),
            position: count(self.place),
            own: self.own,
            queued_at: self.queued.then_some(self.sent),
            key,
            kept: self.mode.as_deref() == Some("kept"),
        }
    }

    /// Returns the failure for a key that is in use in an incompatible mode.
    pub(super) fn conflict(&self, asked: Use) -> Failure {
        let in_force = self.mode.as_deref().and_then(Use::from_code);
        let Some(in_force) = in_force else { return Failure::unexpected("no mode") };
        Failure::new(LockErrorKind::InvalidRequest, conflict::in_use("the key", in_force, asked))
    }

    /// Returns the failure of [`conflict`](Self::conflict) for `claim`. Names the key if the claim has several keys.
    pub(super) fn clash(&self, claim: &Claim) -> Failure {
        let failure = self.conflict(Use::Lock(claim.mode));
        match self.key_of(claim) {
            Some(key) => failure.on_key(key),
            None => failure,
        }
    }

    /// Returns the key that the answer describes, if the claim has several keys.
    fn key_of<'a>(&self, claim: &'a Claim) -> Option<&'a Key> {
        let at = usize::try_from(self.number?).ok()?.checked_sub(1)?;
        claim.keys().nth(at).filter(|_| !claim.more.is_empty())
    }

    pub(super) fn unexpected(&self) -> Failure {
        Failure::unexpected("another verdict")
    }
}

/// Reads a number that may be null. Returns `None` if the text is not a number.
fn number<N: std::str::FromStr>(text: Option<String>) -> Option<Option<N>> {
    text.map(|text| text.parse().ok()).map_or(Some(None), |number| number.map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_one_value_is_read() {
        let read = |columns: &[Option<&str>]| {
            let columns = columns.iter().map(|column| column.map(str::to_owned)).collect();
            Answer::of_columns(columns, crate::clock::Clock::Suspend.now())
        };
        let short = read(&[Some("1"), None, None, Some("0")]).expect("an answer");
        assert_eq!((short.verdict, short.now, short.fence, short.waiting), (1, 0, None, Some(0)));
        assert_eq!((short.own, short.queued, short.number), (false, false, None));
        let table = [
            Some("0"),
            Some("17"),
            None,
            Some("3"),
            Some("5000"),
            Some("host=h"),
            Some("2"),
            Some("true"),
            Some("false"),
            Some("latch"),
            Some("7"),
        ];
        let long = read(&table).expect("an answer");
        assert_eq!((long.now, long.waiting, long.left, long.place), (17, Some(3), Some(5_000), Some(2)));
        assert_eq!((long.own, long.queued, long.number), (true, false, Some(7)));
        assert_eq!((long.record.as_deref(), long.mode.as_deref()), (Some("host=h"), Some("latch")));
        for wrong in [&[][..], &[None], &[Some("x")], &[Some("1"), None, Some("")]] {
            assert!(read(wrong).is_none(), "{wrong:?}");
        }
    }
}
