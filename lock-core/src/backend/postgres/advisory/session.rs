//! Acquires and frees the advisory locks of one session, and tracks until when the session certainly exists.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_postgres::Statement;

use super::grants::{Begin, Grants, Leave};
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{self, Goal, Shared, text};
use crate::backend::{Attempt, Claim, Grant, Held, Released};
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;
use crate::owner::Owner;
use crate::sync::{Mutex, change, survives};

/// The oldest version of Postgres that can end a session because it receives no signs of life.
const OLDEST: i32 = 14;

/// The number of signs of life that the client sends within the session timeout.
pub(super) const PROOFS: u32 = 8;

/// The longest silence of the server that does not endanger a lock. The client sends a sign of life twice a second, or
/// more often.
const SILENT: Duration = Duration::from_secs(3);

const LOCK: &str = "SELECT pg_catalog.pg_try_advisory_lock($1)";
const UNLOCK: &str = "SELECT pg_catalog.pg_advisory_unlock($1)";
/// Queries whether the answer comes from the server process that holds the locks of the session.
const PROVE: &str = "SELECT pg_catalog.pg_backend_pid() = $1::bigint";
/// Queries whether any session of the database has an advisory lock. `pg_locks` shows its number in two columns.
const LOOK: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted \
                    AND ((l.classid::bigint << 32) | l.objid::bigint) = $1 \
                    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))";

/// A session. The library's own thread drives its connection. The connection ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) link: tokio::sync::Mutex<Option<link::Session>>,
    live: Arc<link::Connection>,
    lock: Statement,
    unlock: Statement,
    prove: Statement,
    look: Statement,
    /// The server process of the session.
    pub(super) pid: i32,
    timeout: Duration,
    /// The time when the last answered statement was sent.
    proof: Mutex<Moment>,
    /// `None` after the session has ended.
    pub(super) grants: Mutex<Option<Grants>>,
    /// Changes with every answer, and so wakes the callers that wait for an answer.
    answers: watch::Sender<u64>,
    pub(super) over: watch::Sender<bool>,
    background: Handle,
}

/// Returns the present time of the clock that measures the leases of all remote stores.
pub(super) fn now() -> Moment {
    Clock::Suspend.now()
}

impl Session {
    /// Begins a session. The server ends the session if it receives no sign of life for the session timeout, but not
    /// earlier. The dial takes at most `limit`.
    pub(super) async fn begin(shared: &Shared, limit: Duration) -> Result<Self, Failure> {
        let timeout = shared.config.session_timeout();
        let background = Handle::current();
        let session = link::dial(shared, Goal::Session, limit).await?;
        if shared.is_pooled() {
            let detail = "an advisory lock needs a session of the server for itself: a pooler that shares its connections, or a \
                          client that a pool lends, has none; write `?pooling=session` if the pooler is in session pooling";
            return Err(Failure::new(LockErrorKind::Unsupported, detail));
        }
        let live = Arc::clone(&session.live);
        let (sent, idle) = (now(), shared.config.timers().idle_session_timeout());
        let settings = "SELECT pg_catalog.current_setting('server_version_num')::integer / 10000, pg_catalog.pg_backend_pid(), \
                        CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 140000 \
                        THEN pg_catalog.set_config('idle_session_timeout', $1, false) END";
        let rows = live.query(settings, vec![text(idle)]).await?;
        let row = rows.first().ok_or_else(|| Failure::unexpected("no row"))?;
        let read = |at| row.try_get::<_, i32>(at).map_err(|error| Failure::from_driver(&error));
        let (version, pid) = (read(0)?, read(1)?);
        if version < OLDEST {
            let detail = format!(
                "the server is Postgres {version}: {OLDEST} is the oldest that ends a session without a sign of life"
            );
            return Err(Failure::new(LockErrorKind::Unsupported, detail));
        }
        let prepare =
            async |text| live.client().prepare(text).await.map_err(|error| Failure::from_driver(&error));
        let (lock, unlock) = (prepare(LOCK).await?, prepare(UNLOCK).await?);
        let (prove, look) = (prepare(PROVE).await?, prepare(LOOK).await?);
        Ok(Self {
            link: tokio::sync::Mutex::new(Some(session)),
            live,
            lock,
            unlock,
            prove,
            look,
            pid,
            timeout,
            proof: Mutex::new(sent),
            grants: Mutex::new(Some(Grants::default())),
            answers: watch::Sender::new(0),
            over: watch::Sender::new(false),
            background,
        })
    }

    /// Makes one attempt at a claim. The attempt has no time limit of its own.
    pub(super) async fn attempt(self: &Arc<Self>, claim: &Claim, id: i64) -> Result<Attempt, Failure> {
        let mut answers = self.answers.subscribe();
        loop {
            match self.with(|grants| grants.begin(id, claim.owner))? {
                Begin::Ask => {
                    claim.mark_sent();
                    let (session, sent) = (Arc::clone(self), now());
                    let asked = self.background.spawn(async move { session.ask(id, sent).await });
                    return match asked.await.map_err(|_| ended())?? {
                        true => self.granted(sent),
                        false => Ok(Attempt::Held(Held::default())),
                    };
                }
                Begin::Held => return self.granted(now()),
                Begin::Busy(holder) => {
                    let own = holder.is_some_and(|holder| holder.may_hand_off_to(&claim.owner));
                    return Ok(Attempt::Held(Held { own, ..Held::default() }));
                }
                Begin::Wait => self.answer(&mut answers).await?,
            }
        }
    }

    /// Requests a lock from the server. This runs in its own task, so it continues even if the caller has stopped
    /// waiting.
    async fn ask(&self, id: i64, sent: Moment) -> Result<bool, Failure> {
        let answer = self.say(&self.lock, id, sent).await;
        if self.with(|grants| grants.answered(id, answer.as_ref().ok().copied()))? {
            let freed = self.free(id).await;
            change(&self.answers, |number| *number += 1);
            freed?;
            return answer.map(|_| false);
        }
        change(&self.answers, |number| *number += 1);
        answer
    }

    fn granted(&self, sent: Moment) -> Result<Attempt, Failure> {
        let certain = self.certain(sent);
        if certain.is_zero() {
            return Err(Failure::new(LockErrorKind::Unavailable, "the session is not certain").in_doubt());
        }
        Ok(Attempt::Granted(Grant::new(sent, certain)))
    }

    /// Releases a claim. The release has no time limit of its own.
    pub(super) async fn release(self: &Arc<Self>, owner: Owner, id: i64) -> Result<Released, Failure> {
        let mut answers = self.answers.subscribe();
        loop {
            match self.with(|grants| grants.leave(id, owner))? {
                Leave::Free => {
                    let session = Arc::clone(self);
                    let freed = self.background.spawn(async move {
                        let freed = session.free(id).await;
                        change(&session.answers, |number| *number += 1);
                        freed
                    });
                    if freed.await.map_err(|_| ended())?? {
                        return Ok(Released::Released);
                    }
                }
                Leave::Wait => self.answer(&mut answers).await?,
                Leave::Taken => return Ok(Released::Taken),
                Leave::Nothing => return self.look(id).await,
            }
        }
    }

    /// Frees a lock on the server. If this fails, ends the session, because it is unknown which locks the session still
    /// has.
    async fn free(&self, id: i64) -> Result<bool, Failure> {
        match self.say(&self.unlock, id, now()).await {
            Ok(freed) => {
                self.with(|grants| grants.freed(id))?;
                Ok(freed)
            }
            Err(failure) => {
                survives(|| self.over.send_replace(true));
                Err(failure)
            }
        }
    }

    /// Returns the outcome of a release if no owner of this session has the lock: whether another session has it.
    async fn look(self: &Arc<Self>, id: i64) -> Result<Released, Failure> {
        let session = Arc::clone(self);
        let looked = self.background.spawn(async move { session.say(&session.look, id, now()).await });
        match looked.await.map_err(|_| ended())?? {
            true => Ok(Released::Taken),
            false => Ok(Released::Expired),
        }
    }

    /// Runs a statement with one parameter and an answer of yes or no. The answer is a sign of life.
    async fn say(&self, statement: &Statement, value: i64, sent: Moment) -> Result<bool, Failure> {
        let rows = self.live.client().query(statement, &[&value]).await;
        let rows = rows.map_err(|error| Failure::from_driver(&error))?;
        let row = rows.first().ok_or_else(|| Failure::unexpected("no row"))?;
        let answer = row.try_get(0).map_err(|_| Failure::unexpected("another type"))?;
        let mut proof = self.proof.lock();
        if proof.is_past(sent) {
            *proof = sent;
        }
        Ok(answer)
    }

    /// Returns the connection, for statements that neither acquire nor free locks.
    pub(super) fn connection(&self) -> &Arc<link::Connection> {
        &self.live
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends a sign of life. Returns whether the server process of this session has answered.
    pub(super) async fn prove(&self) -> Result<bool, Failure> {
        self.say(&self.prove, self.pid.into(), now()).await
    }

    /// Completes when the connection is lost.
    pub(super) async fn lost(&self) {
        if let Some(link) = &mut *self.link.lock().await {
            link.ended().await;
        }
    }

    /// Waits until any request of this session is answered. Fails if the session ends.
    async fn answer(&self, answers: &mut watch::Receiver<u64>) -> Result<(), Failure> {
        tokio::select! {
            _ = answers.changed() => Ok(()),
            () = self.ends() => Err(ended()),
        }
    }

    /// Returns how long after `at` the session certainly exists.
    pub(super) fn certain(&self, at: Moment) -> Duration {
        self.proof.lock().plus(self.timeout).remaining(at)
    }

    /// Returns whether answers to signs of life are overdue.
    pub(super) fn is_silent(&self, at: Moment) -> bool {
        at.since(*self.proof.lock()) > (self.timeout * 3 / PROOFS).min(SILENT)
    }

    pub(super) fn holds(&self, id: i64, owner: Owner) -> bool {
        self.with(|grants| grants.is_held(id, owner)).unwrap_or(false)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Grants) -> T) -> Result<T, Failure> {
        self.grants.lock().as_mut().map(change).ok_or_else(ended)
    }

    /// Completes when the session has ended.
    pub(super) async fn ends(&self) {
        // The wait cannot fail, because the sender lives as long as `self`.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

/// Returns the failure of a request in a session that has ended. The error is ambiguous, because the server may not
/// have ended the session yet.
fn ended() -> Failure {
    Failure::new(LockErrorKind::Unavailable, "the session ended while the request was under way").in_doubt()
}
