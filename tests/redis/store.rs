//! The backend itself, called with single claims.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::backend::{
    Ask, Attempt, Backend, Claim, Grant, Heartbeat, Held, Listener, Mode, Queue, Released, Renew, Renewal,
};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::testkit::Claims;
use lock_core::{LockError, LockErrorKind};
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::support::LONG;

/// A notification to a [`Listener`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Granted(Owner, usize),
    Contended(String),
    Opened(String),
    Reconnected,
}

#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Vec<Told>>);

impl Log {
    fn note(&self, told: Told) {
        self.0.lock().expect("no panic").push(told);
    }
}

impl Listener for Log {
    fn granted(&self, owner: Owner, waiters: usize) {
        self.note(Told::Granted(owner, waiters));
    }

    fn contended(&self, key: &str) {
        self.note(Told::Contended(key.to_owned()));
    }

    fn opened(&self, key: &str) {
        self.note(Told::Opened(key.to_owned()));
    }

    fn reconnected(&self) {
        self.note(Told::Reconnected);
    }
}

/// A process that uses the store: its owners, its connections and its notifications.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) redis: Redis,
    claims: Claims,
    log: Arc<Log>,
}

impl Process {
    pub(crate) async fn of(server: &RedisServer) -> Self {
        Self::at(&server.url()).await
    }

    pub(crate) async fn at(url: &str) -> Self {
        let process = Self::deaf(url).await;
        let listener: Arc<dyn Listener> = process.log.clone();
        let listener: Weak<dyn Listener> = Arc::downgrade(&listener);
        process.redis.attach(process.claims.owner().process(), listener, None);
        process
    }

    /// Returns a process that receives no notifications.
    pub(crate) async fn deaf(url: &str) -> Self {
        let redis = Redis::connect(url).await.expect("the server takes locks");
        Self { redis, claims: Claims::new().expect("random bytes"), log: Arc::default() }
    }

    pub(crate) fn number(&self) -> u128 {
        self.claims.owner().process()
    }

    pub(crate) fn owner(&self) -> Owner {
        self.claims.owner()
    }

    pub(crate) fn claim(&self, key: &str, mode: Mode, queue: Queue) -> Claim {
        self.claims.claim(&Key::new(key).expect("a key"), mode, queue, LONG)
    }

    pub(crate) fn fifo(&self, key: &str) -> Claim {
        self.claim(key, Mode::Exclusive, Queue::Fifo)
    }

    pub(crate) fn barging(&self, key: &str) -> Claim {
        self.claim(key, Mode::Exclusive, Queue::Barging)
    }

    /// Returns all notifications of the process.
    pub(crate) fn told(&self) -> Vec<Told> {
        self.log.0.lock().expect("no panic").clone()
    }

    pub(crate) async fn is_told(&self, told: &Told) {
        wait_until(&format!("{told:?} is told"), PATIENCE, async || self.told().contains(told)).await;
    }

    /// Acquires at the first attempt.
    pub(crate) async fn take(&self, claim: &Claim) -> Grant {
        match self.redis.acquire(claim, Ask::Try).await.expect("an answer") {
            Attempt::Granted(grant) => grant,
            Attempt::Held(held) => panic!("held: {held:?}"),
        }
    }

    /// Checks that one attempt is refused.
    pub(crate) async fn refused(&self, claim: &Claim) -> Held {
        held(self.redis.acquire(claim, Ask::Try).await.expect("an answer"))
    }

    /// Enters the queue.
    pub(crate) async fn wait(&self, claim: &Claim) -> Held {
        let held = self.enqueue(claim, None).await;
        assert!(held.queued_at.is_some() && held.position.is_some(), "no place: {held:?}");
        held
    }

    pub(crate) async fn enqueue(&self, claim: &Claim, room: Option<usize>) -> Held {
        held(self.redis.acquire(claim, Ask::Enqueue { room }).await.expect("an answer"))
    }

    pub(crate) async fn heartbeat(&self, claim: &Claim) -> Heartbeat {
        self.redis.heartbeat(claim).await.expect("an answer")
    }

    pub(crate) async fn served(&self, claim: &Claim) -> Grant {
        match self.heartbeat(claim).await {
            Heartbeat::Granted(grant) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub(crate) async fn waits(&self, claim: &Claim) -> Held {
        match self.heartbeat(claim).await {
            Heartbeat::Waiting(held) => held,
            other => panic!("not waiting: {other:?}"),
        }
    }

    pub(crate) async fn gone(&self, claim: &Claim) {
        let heartbeat = self.heartbeat(claim).await;
        assert!(matches!(heartbeat, Heartbeat::Gone), "{heartbeat:?}");
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Released {
        self.redis.release(claim, None).await.expect("an answer")
    }

    pub(crate) async fn renew(&self, claim: &Claim, ttl: Duration) -> Renewal {
        let mut answers = self.redis.renew(&[Renew { claim, ttl }]).await;
        assert_eq!(answers.len(), 1);
        answers.pop().expect("there is one")
    }

    /// Checks that a renewal succeeds. Returns how many claims wait.
    pub(crate) async fn renewed(&self, claim: &Claim, ttl: Duration) -> Option<usize> {
        match self.renew(claim, ttl).await {
            Renewal::Renewed { waiters, .. } => waiters,
            other => panic!("not renewed: {other:?}"),
        }
    }
}

pub(crate) fn held(attempt: Attempt) -> Held {
    match attempt {
        Attempt::Held(held) => held,
        Attempt::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

pub(crate) fn token(claim: &Claim) -> String {
    claim.owner.token().as_str().to_owned()
}

/// Returns whether the claim holds the exclusive lock `key`.
pub(crate) fn holds(server: &RedisServer, key: &str, claim: &Claim) -> bool {
    server.get::<Option<String>>(&["GET", key]).is_some_and(|value| value.starts_with(&token(claim)))
}

/// Makes the queue entry of a claim expire, as if the claim had sent no heartbeat for a long time.
pub(crate) fn kill_place(server: &RedisServer, key: &str, claim: &Claim) {
    let waiting = format!("{{{key}}}:w");
    let entry: String = server.get(&["HGET", &waiting, &token(claim)]);
    let (_, rest) = entry.split_once(' ').expect("a deadline and more");
    server.command(&["HSET", &waiting, &token(claim), &format!("1 {rest}")]);
}

/// Returns the number of entries in each of the two parts of the queue of `key`.
pub(crate) fn queue(server: &RedisServer, key: &str) -> (i64, i64) {
    (server.get(&["ZCARD", &format!("{{{key}}}:q")]), server.get(&["HLEN", &format!("{{{key}}}:w")]))
}

/// Checks that every key expires after a bounded time.
pub(crate) fn all_expire(server: &RedisServer) {
    for key in server.keys() {
        assert!(server.get::<i64>(&["PTTL", &key]) > 0, "{key} has no expiry");
    }
}

/// Checks that an error is permanent, and names both kinds.
pub(crate) fn names_both(error: &LockError, in_force: &str, asked: &str) {
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    assert!(!error.is_temporary(), "{error}");
    let text = error.to_string();
    let (first, second) = (text.find(in_force), text.rfind(asked));
    assert!(first.is_some() && first < second, "{in_force}, {asked}: {text}");
}
