//! Helpers that several topics share.

use std::time::Duration;

use lock_core::LockError;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::backend::{Ask, Attempt, Backend, Claim, Released, Renew, Renewal};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_tests::{Bound, PATIENCE, RedisServer};

/// The longest lease of most tests. It is long enough for a test on a busy machine, and short enough to wait for its
/// end.
pub(crate) const MAX_TTL: Duration = ms(3_000);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the time for which a server does not vote after it may have forgotten a lease of `max_ttl`.
pub(crate) fn quarantine(max_ttl: Duration) -> Duration {
    max_ttl.mul_f64(1.02) + ms(10)
}

/// Declares that these servers hold no locks.
pub(crate) async fn new_cluster(servers: &[&RedisServer], max_ttl: Duration) {
    let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
    let options = VoterOptions::new(max_ttl);
    Voter::bootstrap_new_cluster(urls.iter().map(String::as_str), options).await.expect("they are empty");
}

/// Starts a server that votes and holds no locks.
pub(crate) async fn voting_server(max_ttl: Duration) -> RedisServer {
    let server = RedisServer::start();
    new_cluster(&[&server], max_ttl).await;
    server
}

/// A client of a single voter.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) voter: Voter,
    claims: Claims,
}

impl Client {
    pub(crate) async fn of(server: &RedisServer, max_ttl: Duration) -> Self {
        Self::try_of(server, max_ttl).await.expect("the server may vote")
    }

    pub(crate) async fn try_of(server: &RedisServer, max_ttl: Duration) -> Result<Self, LockError> {
        let voter = Voter::connect(&server.url(), VoterOptions::new(max_ttl)).await?;
        Ok(Self { voter, claims: Claims::new().expect("random bytes") })
    }

    pub(crate) fn claim(&self, key: &str, ttl: Duration) -> Claim {
        self.claims.exclusive(&Key::new(key).expect("a key"), ttl)
    }

    pub(crate) fn claim_all(&self, keys: [&str; 2], ttl: Duration) -> Claim {
        let keys = keys.map(|key| Key::new(key).expect("a key"));
        self.claims.all(keys, lock_core::backend::Queue::Barging, ttl)
    }

    pub(crate) async fn ask(&self, claim: &Claim) -> Result<Attempt, LockError> {
        self.voter.acquire(claim, Ask::Try).await
    }

    /// Tries once with a fresh owner. Returns `None` if the key is held.
    pub(crate) async fn lock(&self, key: &str, ttl: Duration) -> Result<Option<Claim>, LockError> {
        let claim = self.claim(key, ttl);
        match self.ask(&claim).await? {
            Attempt::Granted(_) => Ok(Some(claim)),
            Attempt::Held(_) => Ok(None),
        }
    }

    /// Acquires a free key.
    pub(crate) async fn take(&self, key: &str, ttl: Duration) -> Claim {
        self.lock(key, ttl).await.expect("the voter votes").expect("the key is free")
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Released {
        self.voter.release(claim, None).await.expect("an answer")
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Renewal {
        self.voter.renew(&[Renew { claim, ttl: claim.ttl }]).await.pop().expect("an answer")
    }

    /// Returns the reason why the voter does not vote now.
    pub(crate) async fn refusal(&self, key: &str, ttl: Duration) -> LockError {
        match self.lock(key, ttl).await {
            Err(error) => error,
            Ok(outcome) => panic!("it voted: {outcome:?}"),
        }
    }

    /// Retries after temporary errors until the voter votes. Returns the time until then.
    pub(crate) async fn votes_again(&self, key: &str, ttl: Duration) -> Duration {
        let bound = Bound::new(PATIENCE);
        loop {
            match self.lock(key, ttl).await {
                Ok(Some(claim)) => {
                    let after = bound.elapsed();
                    self.release(&claim).await;
                    return after;
                }
                Ok(None) => panic!("{key} is held"),
                Err(error) => assert!(error.is_temporary(), "{error}"),
            }
            bound.check("the voter votes");
            tokio::time::sleep(ms(5)).await;
        }
    }
}

/// Checks that the error is the refusal of a server in quarantine, for at most the quarantine of `max_ttl`.
pub(crate) fn assert_quarantined(error: &LockError, max_ttl: Duration) {
    assert!(error.to_string().contains("is in quarantine"), "{error}");
    assert!(error.is_temporary(), "{error}");
    let left = error.retry_after().expect("it says how long");
    assert!(left <= quarantine(max_ttl), "{left:?}");
}

/// Returns the path of the file to which the server appends its log.
pub(crate) fn log_of(server: &RedisServer) -> std::path::PathBuf {
    let folder = server.directory().join("appendonlydir");
    let mut files = std::fs::read_dir(folder).expect("a log").map(|entry| entry.expect("a file").path());
    files.find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("a log that grows")
}
