//! Connects to one voter, or to all voters of a quorum.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::backend::Voter;
use super::options::VoterOptions;
use super::peers::Peers;
use super::role::VoterRole;
use super::session::twice;
use super::state::VoterState;
#[cfg(doc)]
use crate::backend::redis::Redis;
use crate::backend::redis::command::Server;
use crate::backend::redis::config::{Address, Config};
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{self, Session, Shared, dial};
use crate::backoff::Pauses;
use crate::clock::Clock;
use crate::error::{LockError, LockErrorKind, Result};
use crate::runtime::current_runtime;

/// The pauses between two dials of one server.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(50), Duration::from_millis(500));

impl Voter {
    /// Connects to the server at `url` like [`Redis::connect`], but as a voter of a quorum.
    /// [`connect_all`](Self::connect_all) connects to all voters of a quorum.
    ///
    /// # Errors
    ///
    /// The errors of [`Redis::connect`]. [`InvalidRequest`](LockErrorKind::InvalidRequest): the other clients of this
    /// server use another `max_ttl`. [`Unsupported`](LockErrorKind::Unsupported): a server before 7.0, or a server
    /// whose `maxmemory-policy` is not `noeviction`.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect() -> lock_core::Result<()> {
    /// use lock_core::backend::redlock::{Voter, VoterOptions};
    ///
    /// let voter = Voter::connect("redis://10.0.0.1/", VoterOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str, options: VoterOptions) -> Result<Self> {
        current_runtime()?;
        let options = options.checked()?;
        let Candidate { server, .. } = Candidate::new(one_server(url)?, options)?;
        let session = link::first(&server).await?;
        Ok(Self { server: Server::new(server, Some(session)) })
    }

    /// Connects to all voters of a quorum, in the order of `urls`. A majority must answer within the `connect_timeout`.
    /// A voter that is down is dialled until it answers. From then on, it votes. This function also compares the clocks
    /// of the servers. A server whose clock differs from the others does not vote at first, for about the time of the
    /// longest lease.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect), for any of the servers.
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): there is no URL, or two URLs lead to the same server.
    /// [`NoQuorum`](LockErrorKind::NoQuorum): fewer servers than a majority answer (temporary).
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn connect_all<'a>(
        urls: impl IntoIterator<Item = &'a str>,
        options: VoterOptions,
    ) -> Result<Vec<Self>> {
        current_runtime()?;
        let options = options.checked()?;
        let configs = urls.into_iter().map(one_server).collect::<Result<Vec<_>>>()?;
        different(&configs)?;
        let limit = configs.first().map(|config| config.connect_timeout).unwrap_or_default();
        let dialled = dial_all(configs, options).await?;
        let down: Vec<&LockError> = dialled.iter().filter_map(|(_, error)| error.as_ref()).collect();
        // Permanent errors were returned above, so the voters that are down may come back.
        majority(dialled.len(), &down, limit)?;
        for error in down {
            tracing::warn!(%error, "a voter is down; it votes when it is back");
        }
        let voters: Vec<Self> = dialled.into_iter().map(|(voter, _)| voter).collect();
        // The servers are compared after the dials, because their answers contain the run ids.
        introduce(&voters)?;
        Ok(voters)
    }
}

/// Reads the URL of one server. Refuses addresses that a failover moves to another server. Such a voter would have two
/// votes: the replaced primary continues to grant for a while, and its marker is valid.
pub(super) fn one_server(url: &str) -> Result<Config> {
    let config = Config::parse(url)?;
    if config.durability.is_some() {
        let detail = "a voter of a quorum has no `durability`: it is the majority that has copies of a lock, and a replica \
                      does not vote";
        return Err(LockError::new(LockErrorKind::Unsupported, detail));
    }
    match config.address {
        Address::Tcp { .. } | Address::Unix(_) => Ok(config),
        Address::Sentinel(_) => {
            let detail = "a voter of a quorum is one server, named by its own address, and not whatever the sentinels \
                          name";
            Err(LockError::new(LockErrorKind::Unsupported, detail))
        }
        Address::Cluster(_) => {
            let detail =
                "a voter of a quorum is one server, and not a node of a Cluster, whose slots move to others";
            Err(LockError::new(LockErrorKind::Unsupported, detail))
        }
    }
}

/// A server that is being dialled, and the outcome of its dials so far.
#[derive(Clone)]
struct Candidate {
    server: Arc<Shared<VoterRole>>,
    failure: Option<Failure>,
    pauses: Pauses,
}

/// The outcome of one dial, with the number of its candidate.
type Dialled = (usize, std::result::Result<Session<VoterRole>, Failure>);

/// Dials all servers at once, and repeats failed dials until a majority answers. So the time-outs of servers that are
/// down do not add up, and a minority that is down does not prevent the service from starting.
async fn dial_all(configs: Vec<Config>, options: VoterOptions) -> Result<Vec<(Voter, Option<LockError>)>> {
    let candidates = configs.into_iter().map(|config| Candidate::new(config, options));
    let mut candidates = candidates.collect::<Result<Vec<_>>>()?;
    let mut sessions: Vec<Option<Session<VoterRole>>> = candidates.iter().map(|_| None).collect();
    let limits = candidates.first().map(|one| (one.config().connect_timeout, one.config().dial_timeout));
    let (limit, dial_timeout) = limits.unwrap_or_default();
    let (began, mut dials, mut patience) = (Clock::Suspend.now(), JoinSet::<Dialled>::new(), limit);
    for (number, candidate) in candidates.iter().enumerate() {
        dials.spawn(candidate.dial(number, Duration::ZERO, limit));
    }
    loop {
        let passed = Clock::Suspend.now().since(began);
        let (number, outcome) = match timeout(patience.saturating_sub(passed), dials.join_next()).await {
            Ok(Some(joined)) => joined.map_err(|error| {
                LockError::new(LockErrorKind::Unavailable, "the runtime is shutting down").with_source(error)
            })?,
            Ok(None) | Err(_) => break,
        };
        let passed = Clock::Suspend.now().since(began);
        let candidate = &mut candidates[number];
        match outcome {
            Ok(session) => sessions[number] = Some(session),
            // A permanent error ends all dials: this return drops `dials`, which aborts them.
            Err(failure) if failure.is_permanent() => {
                return Err(failure.to_error(candidate.server.address()));
            }
            Err(failure) => {
                let pause = candidate.pauses.next();
                if !failure.is_settled() {
                    dials.spawn(candidate.dial(number, pause, limit.saturating_sub(passed)));
                }
                candidate.failure = Some(failure);
            }
        }
        if sessions.iter().flatten().count() > sessions.len() / 2 {
            // If all other candidates have failed at least once, the dials end. Otherwise these candidates get as much
            // time again as the majority needed, or the rest of the `dial_timeout` if that is longer.
            let has_failed = |number: usize| candidates[number].failure.is_some();
            if sessions.iter().enumerate().all(|(number, session)| session.is_some() || has_failed(number)) {
                break;
            }
            patience = patience.min((passed * 2).max(dial_timeout));
        }
    }
    let voters = candidates.into_iter().zip(sessions);
    Ok(voters.map(|(candidate, session)| candidate.into_voter(session, patience)).collect())
}

impl Candidate {
    fn new(config: Config, options: VoterOptions) -> Result<Self> {
        let state = Arc::new(VoterState::new(options, config.address.clone()));
        let server = Arc::new(Shared::new(config, VoterRole { state })?);
        Ok(Self { server, failure: None, pauses: PAUSES })
    }

    fn config(&self) -> &Config {
        &self.server.config
    }

    /// Dials after a pause, within `left`.
    fn dial(
        &self,
        number: usize,
        pause: Duration,
        left: Duration,
    ) -> impl Future<Output = Dialled> + Send + use<> {
        let server = Arc::clone(&self.server);
        async move {
            sleep(pause).await;
            (number, dial(&server, left).await)
        }
    }

    /// Returns the voter. Without a session, also returns an error, and the voter is dialled from now on until it
    /// answers.
    fn into_voter(
        self,
        session: Option<Session<VoterRole>>,
        patience: Duration,
    ) -> (Voter, Option<LockError>) {
        let failure = || Failure::no_answer(patience).before_any_request();
        let error = match session {
            Some(_) => None,
            None => Some(self.failure.unwrap_or_else(failure).to_error(self.server.address())),
        };
        (Voter { server: Server::new(self.server, session) }, error)
    }
}

/// Refuses an address that is named twice: if one server had two votes, a majority would prove nothing.
fn different(configs: &[Config]) -> Result<()> {
    if configs.is_empty() {
        return Err(LockError::new(LockErrorKind::InvalidRequest, "a quorum needs a voter"));
    }
    for (number, config) in configs.iter().enumerate() {
        // This check finds only equal addresses. Two names of one server are found by the run id of the server, in
        // `introduce` or when the server is registered.
        if configs[..number].iter().any(|other| other.address == config.address) {
            return Err(twice().to_error(&config.address));
        }
    }
    Ok(())
}

fn majority(all: usize, down: &[&LockError], limit: Duration) -> Result<()> {
    let up = all - down.len();
    if up > all / 2 {
        return Ok(());
    }
    let why: Vec<String> = down.iter().map(ToString::to_string).collect();
    let detail = format!(
        "{up} of {all} voters answer within {limit:?}, {} are needed: {}",
        all / 2 + 1,
        why.join("; ")
    );
    Err(LockError::new(LockErrorKind::NoQuorum, detail).nothing_taken())
}

/// Links each voter to its peers. Refuses a server that two addresses name. Equal run ids reveal such a server.
fn introduce(voters: &[Voter]) -> Result<()> {
    let states: Vec<&Arc<VoterState>> =
        voters.iter().map(|voter| &voter.server.shared().role.state).collect();
    for (number, voter) in states.iter().enumerate() {
        let same = |other: &&Arc<VoterState>| {
            // Servers that have not answered have no run id yet, and do not count as equal.
            other.observed().run().is_some() && other.observed().run() == voter.observed().run()
        };
        if states[..number].iter().any(same) {
            return Err(twice().to_error(voter.address()));
        }
    }
    // All voters join before the first comparison, which needs the readings of all voters.
    let peers = Arc::new(Peers::new(states.iter().map(|voter| Arc::downgrade(voter.observed())).collect()));
    for voter in &states {
        voter.join(Arc::clone(&peers));
    }
    for voter in &states {
        voter.compare_once();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(urls: &[&str]) -> Vec<Config> {
        urls.iter().map(|url| Config::parse(url).expect("a URL")).collect()
    }

    #[test]
    fn a_server_votes_once() {
        assert!(different(&configs(&["redis://a", "redis://b", "redis://a:7000"])).is_ok());
        for urls in [&["redis://a", "redis://b", "redis://a:6379/1"][..], &[]] {
            let error = different(&configs(urls)).expect_err("refused");
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        }
    }

    #[test]
    fn a_voter_is_one_server() {
        assert!(one_server("redis://a").is_ok() && one_server("unix:///run/redis.sock").is_ok());
        let error = one_server("redis+sentinel://a,b,c/mymaster").expect_err("it may move");
        assert_eq!(error.kind(), LockErrorKind::Unsupported);
    }

    #[test]
    fn a_majority_must_answer() {
        let down = LockError::new(LockErrorKind::Unavailable, "down");
        for (all, missing, enough) in
            [(1, 0, true), (1, 1, false), (3, 1, true), (3, 2, false), (5, 2, true), (5, 3, false)]
        {
            let outcome = majority(all, &vec![&down; missing], Duration::ZERO);
            assert_eq!(outcome.is_ok(), enough, "{missing} of {all}");
            if let Err(error) = outcome {
                assert!(error.kind() == LockErrorKind::NoQuorum && error.is_temporary());
            }
        }
    }
}
