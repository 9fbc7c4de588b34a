//! The supervisor: one connection, dialled again for ever, watched while it lives.
//!
//! The driver's own reconnecting connection gives up while it is idle and lets its callers hang past their deadline
//! meanwhile, and it never notices a server that stopped answering. This one does the few things a lock needs: dial
//! with a deadline, prove that the server can hold locks, load the scripts, learn the server's clock, ask for its
//! time twice a second, drop the connection after two missed answers, dial again.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::cluster::{Router, slot};
use super::config::{Address, Config};
use super::confirm::{Confirmer, patience};
use super::dial::{Session, dial};
use super::error::{Failure, Reaction};
use super::evictions::Evictions;
use super::listeners::Listeners;
use super::scripts::{Script, Scripts};
use super::sentinel::{self, Place};
use super::tls::Tls;
use super::voter::{Seat, Voter};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind};
use crate::key::Key;

/// Nobody waits longer for another who subscribes.
const SUBSCRIBING: Duration = Duration::from_millis(250);

/// How often the server is asked for its time. Two missed answers end the connection, so a server that hangs is
/// noticed within 1.5 s.
const HEARTBEAT: Duration = Duration::from_millis(500);
const MISSED: u32 = 2;
/// Every so many questions it is also asked whether it has thrown keys away: every five seconds.
const BEATS_PER_LOOK: u32 = 10;
/// The pause after a failed dial grows from the first to the second. The second is short, because a caller waits for
/// a connection no longer than its own deadline, half a second by default.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(250);

/// What all connections of one backend share.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Config,
    tls: Option<Tls>,
    warned: AtomicBool,
    pub(super) evictions: Evictions,
    listeners: Arc<Listeners>,
    /// What makes it a voter of a quorum.
    pub(super) voter: Option<Arc<Voter>>,
    /// Whether it is a node of a Cluster.
    pub(super) on_cluster: bool,
    /// Who knows the others there.
    pub(super) peers: Weak<Router>,
}

impl Server {
    /// Reads the files that the configuration names.
    pub(super) fn new(config: Config) -> Result<Self, LockError> {
        Ok(Self {
            tls: match &config.tls {
                Some(files) => Some(Tls::new(files, config.address.hosts())?),
                None => None,
            },
            config,
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            listeners: Arc::default(),
            voter: None,
            on_cluster: false,
            peers: Weak::new(),
        })
    }

    /// Makes it a voter of a quorum.
    pub(super) fn voting(self, voter: Arc<Voter>) -> Self {
        Self { voter: Some(voter), ..self }
    }

    /// Makes it one of a Cluster, whose nodes are found by `peers`.
    pub(super) fn on_cluster(self, peers: Weak<Router>) -> Self {
        Self { on_cluster: true, peers, ..self }
    }

    /// The node of the Cluster at a place. All of them have the same listeners, and read no file again.
    pub(super) fn node(&self, place: Place) -> Self {
        Self {
            config: self.config.of_node(place),
            tls: self.tls.clone(),
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            listeners: Arc::clone(&self.listeners),
            voter: None,
            on_cluster: self.on_cluster,
            peers: self.peers.clone(),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.config.address
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Whether its settings have not been complained of yet.
    pub(super) fn warns(&self) -> bool {
        !self.warned.swap(true, Ordering::Relaxed)
    }

    pub(super) fn shared_listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }

    /// Who is told what the server tells by itself.
    pub(super) fn listeners(&self) -> &Listeners {
        &self.listeners
    }
}

/// That a connection is no good any more although it is up.
#[derive(Debug, Default)]
pub(super) struct Spoiled {
    told: Notify,
    out_of_step: AtomicBool,
}

impl Spoiled {
    /// Looks at what the server tells by itself, before anything that it answers behind that is handed out.
    ///
    /// A node that gives a slot away ends the subscriptions to its channels, in the same words in which it would answer
    /// who asks for that. The driver takes them for the answer to the oldest request that is on its way, and from then on
    /// each answer for that to the next one: who asked for a lock that is held may read that another was granted.
    pub(super) fn look(&self, push: &PushInfo) {
        if push.kind == PushKind::SUnsubscribe {
            self.out_of_step.store(true, Ordering::Release);
            self.told.notify_one();
        }
    }
}

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Live {
    connection: MultiplexedConnection,
    pub(super) scripts: Scripts,
    pub(super) clock: ServerClock,
    /// Of a voter's connection.
    pub(super) seat: Option<Seat>,
    /// Of a connection whose locks need copies.
    pub(super) confirmer: Option<Confirmer>,
    spoiled: Arc<Spoiled>,
    /// Up to which [version](Listeners::version) of the listeners it has subscribed; 0 for nobody.
    hears: AtomicU64,
    /// The same for each slot, on a node of a Cluster.
    hears_of: Mutex<HashMap<u16, u64>>,
    subscribing: tokio::sync::Mutex<()>,
    /// Up to which [version](Listeners::version) it was to subscribe for those who hold.
    attends: AtomicU64,
}

impl Live {
    pub(super) fn new(
        connection: MultiplexedConnection,
        scripts: Scripts,
        clock: ServerClock,
        seat: Option<Seat>,
        confirmer: Option<Confirmer>,
        spoiled: Arc<Spoiled>,
    ) -> Self {
        Self {
            connection,
            scripts,
            clock,
            seat,
            confirmer,
            spoiled,
            hears: AtomicU64::new(0),
            hears_of: Mutex::default(),
            subscribing: tokio::sync::Mutex::default(),
            attends: AtomicU64::new(0),
        }
    }

    /// Subscribes for those who hold, in the background and once: a grant came or was renewed over this connection. Where that
    /// is forbidden, they find out by their renewals.
    pub(super) fn attend(self: &Arc<Self>, listeners: &Arc<Listeners>) {
        let version = listeners.version();
        // On the way of every grant.
        if self.attends.load(Ordering::Acquire) >= version || self.seat.is_some() {
            return;
        }
        if self.attends.fetch_max(version, Ordering::AcqRel) < version {
            let (live, listeners) = (Arc::clone(self), Arc::clone(listeners));
            tokio::spawn(async move {
                let _one = live.alone().await;
                // One channel a command: see `hear_of`.
                for channel in listeners.held_channels() {
                    if let Err(error) = live.connection.clone().subscribe(channel).await {
                        tracing::debug!(%error, "holders are not told when their lock is taken by force");
                        return;
                    }
                }
            });
        }
    }

    /// The right to subscribe, which one has at a time; `None` where somebody has it for too long: a caller that is not polled
    /// any more must not keep all others of this connection from it. To subscribe twice does no harm.
    async fn alone(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        timeout(SUBSCRIBING, self.subscribing.lock()).await.ok()
    }

    /// Whether it was to subscribe for those who hold.
    fn is_attending(&self) -> bool {
        self.attends.load(Ordering::Acquire) > 0
    }

    /// Subscribes to the channels of all who listen, unless that was done. Before the first command over this
    /// connection whose outcome the server may tell by itself, and not with the others: most connections never wait.
    pub(super) async fn hear(&self, listeners: &Listeners, key: &Key) -> Result<(), Failure> {
        if self.scripts.on_cluster() {
            return self.hear_of(listeners, slot::of(key.as_str())).await;
        }
        if self.hears.load(Ordering::Acquire) >= listeners.version() {
            return Ok(());
        }
        // One at a time, so that none goes on before the answer of the first; whoever is dropped here has done no harm.
        let _one = self.alone().await;
        let version = listeners.version();
        if self.hears.load(Ordering::Acquire) >= version {
            return Ok(());
        }
        let answer = self.connection.clone().subscribe(listeners.channels()).await;
        answer.map_err(|error| self.noted(Failure::of(&error)).before_any_request())?;
        self.hears.store(version, Ordering::Release);
        Ok(())
    }

    /// The same for the channels of one slot. One channel a command: the driver takes the second confirmation of a
    /// command for the answer to the next one.
    async fn hear_of(&self, listeners: &Listeners, slot: u16) -> Result<(), Failure> {
        let known =
            || self.hears_of.lock().unwrap_or_else(PoisonError::into_inner).get(&slot).copied().unwrap_or(0);
        if known() >= listeners.version() {
            return Ok(());
        }
        let _one = self.alone().await;
        let version = listeners.version();
        if known() >= version {
            return Ok(());
        }
        let beginning = slot::channel(slot);
        for process in listeners.processes() {
            let mut command = Cmd::new();
            command.arg("SSUBSCRIBE").arg(format!("{beginning}{process}"));
            self.send(&command).await.map_err(Failure::before_any_request)?;
        }
        self.hears_of.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, version);
        self.hears.fetch_max(version, Ordering::AcqRel);
        Ok(())
    }

    /// Whether somebody was promised to be told over this connection.
    fn is_heard(&self) -> bool {
        self.hears.load(Ordering::Acquire) > 0
    }

    /// Sends one command and gives its answer; an error reply is a failure.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let answer = self.connection.clone().send_packed_command(command).await;
        match self.own(answer)? {
            Value::ServerError(error) => Err(self.noted(Failure::of_reply(&error))),
            value => Ok(value),
        }
    }

    /// Sends an EVALSHA; where the server has forgotten the script (and so ran nothing), loads it and sends again.
    pub(super) async fn run(&self, script: Script, command: &Cmd) -> Result<Value, Failure> {
        match self.send(command).await {
            Err(failure) if failure.reaction == Reaction::LoadScripts => {
                self.send(&self.scripts.load(script)).await?;
                self.send(command).await
            }
            answer => answer,
        }
    }

    /// Sends several commands at once. An error reply is a value in its place.
    pub(super) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let answers = self.connection.clone().send_packed_commands(commands, 0, commands.len()).await;
        self.own(answers)
    }

    /// What came for a request, unless it may be the answer to another one.
    fn own<T>(&self, answer: RedisResult<T>) -> Result<T, Failure> {
        if self.is_out_of_step() {
            return Err(Failure::out_of_step());
        }
        answer.map_err(|error| self.noted(Failure::of(&error)))
    }

    /// Whether nothing may be asked over it any more.
    pub(super) fn is_out_of_step(&self) -> bool {
        self.spoiled.out_of_step.load(Ordering::Acquire)
    }

    /// Tells the supervisor of a failure that this connection does not outlive.
    pub(super) fn noted(&self, failure: Failure) -> Failure {
        if failure.reaction == Reaction::Reconnect {
            self.spoiled.told.notify_one();
        }
        failure
    }
}

/// The server's clock as seen from here: by how much it is ahead of ours.
#[derive(Debug)]
pub(super) struct ServerClock(AtomicI64);

impl ServerClock {
    pub(super) fn new(now: i64, sent: Moment) -> Self {
        Self(AtomicI64::new(now.saturating_sub(micros(sent))))
    }

    /// Learns that the server's time was `now` (in us) some time between `sent` and `received`.
    ///
    /// What is known already stays unless this answer contradicts it, so the quickest answer counts and one that was
    /// slow spoils nothing. Where it contradicts, the server's clock was set, and the answer counts from `sent`: that
    /// errs towards a clock that is ahead, so an instant made from it never refuses too early.
    pub(super) fn learn(&self, now: i64, sent: Moment, received: Moment) {
        let (least, most) = (now.saturating_sub(micros(received)), now.saturating_sub(micros(sent)));
        if !(least..=most).contains(&self.0.load(Ordering::Relaxed)) {
            self.0.store(most, Ordering::Relaxed);
        }
    }

    /// What the server's clock will say at `moment`, in us.
    pub(super) fn at(&self, moment: Moment) -> i64 {
        micros(moment).saturating_add(self.0.load(Ordering::Relaxed))
    }
}

/// Of the two clocks of a moment the one that goes on during suspend, as the server's does.
fn micros(moment: Moment) -> i64 {
    moment.parts().1 / 1_000
}

/// Reads the answer to `TIME`, in us.
pub(super) fn server_time(answer: &Value) -> Result<i64, Failure> {
    let number = |value: &Value| match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse::<i64>().ok(),
        _ => None,
    };
    match answer {
        Value::ServerError(error) => Err(Failure::of_reply(error)),
        Value::Array(parts) => match (parts.first().and_then(number), parts.get(1).and_then(number)) {
            (Some(seconds), Some(micros)) => Ok(seconds.saturating_mul(1_000_000).saturating_add(micros)),
            _ => Err(Failure::unexpected(answer)),
        },
        _ => Err(Failure::unexpected(answer)),
    }
}

/// What the supervisor tells: the connection, or why there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) live: Option<Arc<Live>>,
    pub(super) failure: Option<Failure>,
}

/// Starts the supervisor on the current runtime. It ends with that runtime, or when nobody watches any more.
pub(super) fn supervise(server: Arc<Server>, first: Option<Session>) -> watch::Receiver<State> {
    let live = first.as_ref().map(|session| Arc::clone(&session.live));
    let (tell, told) = watch::channel(State { live, failure: None });
    tokio::spawn(async move {
        tokio::select! {
            // Not in an order of chance: a simulation is to be the same again.
            biased;
            () = keep_connected(&server, &tell, first) => {}
            () = tell.closed() => {}
        }
    });
    told
}

async fn keep_connected(server: &Server, tell: &watch::Sender<State>, mut first: Option<Session>) {
    let mut pause = FIRST_PAUSE;
    // Whether somebody is told over this link. Then a new connection is news: what was told meanwhile is lost, and
    // whoever asks now subscribes anew.
    let mut heard = false;
    let mut attending = false;
    loop {
        let dialled = match first.take() {
            Some(session) => Ok(session),
            None => dial(server).await,
        };
        let failure = match dialled {
            Ok(mut session) => {
                tell.send_replace(State { live: Some(Arc::clone(&session.live)), failure: None });
                tracing::debug!(server = %server.address(), "connected to redis");
                if heard {
                    server.listeners.reconnected();
                }
                if attending {
                    session.live.attend(&server.listeners);
                }
                let failure = watch_over(server, &mut session, &mut pause).await;
                heard |= session.live.is_heard();
                attending |= session.live.is_attending();
                failure
            }
            // The server was a primary when the backend was made, so it may be one again.
            Err(failure) if failure.reaction == Reaction::Reconnect => failure.temporary(),
            Err(failure) => failure,
        };
        tracing::debug!(server = %server.address(), ?failure, "no connection to redis");
        tell.send_replace(State { live: None, failure: Some(failure) });
        // Jitter, so that the processes of a service do not all dial a restarted server in the same instant.
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Returns when the server is not the primary any more; never where nobody says who is.
async fn replaced(server: &Server, place: Option<&Place>) {
    match (server.address(), place) {
        (Address::Sentinel(sentinels), Some(place)) => {
            sentinel::replaced(server, sentinels, place).await;
        }
        _ => std::future::pending().await,
    }
}

/// Returns when the connection is no good any more, with the reason.
async fn watch_over(server: &Server, session: &mut Session, pause: &mut Duration) -> Failure {
    let lost = |why: &'static str| Failure::new(LockErrorKind::Unavailable, why);
    let Session { live, driver, place } = session;
    let mut replaced = pin!(replaced(server, place.as_ref()));
    // An answer may stand behind a confirmation.
    let bound =
        HEARTBEAT + live.confirmer.as_ref().map_or(Duration::ZERO, |_| patience(server.config.timeout));
    let (mut missed, mut beats) = (0, 0_u32);
    loop {
        tokio::select! {
            // Not in an order of chance: a simulation is to be the same again.
            biased;
            _ = &mut driver.0 => return lost("the server closed the connection"),
            () = live.spoiled.told.notified() => return lost(match live.is_out_of_step() {
                true => "the node has given a slot away",
                false => "the server has become a replica",
            }),
            () = &mut replaced => return lost("the sentinels name another primary"),
            // The wait for an answer that did not come was the pause.
            () = sleep(if missed == 0 { HEARTBEAT } else { Duration::ZERO }) => {}
        }
        let mut command = Cmd::new();
        command.arg("TIME");
        let sent = Clock::Suspend.now();
        match timeout(bound, live.send(&command)).await {
            Ok(Ok(answer)) => {
                // Only a connection that lasts may shorten the pause: else a server that closes every connection at
                // once would be dialled in a tight loop.
                *pause = FIRST_PAUSE;
                if let Ok(now) = server_time(&answer) {
                    live.learn(now, sent, Clock::Suspend.now());
                }
                let looked = if let Some(seat) = &live.seat {
                    timeout(HEARTBEAT, seat.look(live)).await.is_ok()
                } else if beats % BEATS_PER_LOOK == 0 {
                    timeout(bound, server.evictions.look(live, server)).await.is_ok()
                } else {
                    true
                };
                missed = u32::from(!looked);
                beats = beats.wrapping_add(1);
            }
            // An error reply is an answer too, and a connection that broke ends the driver.
            Ok(Err(_)) => missed = 0,
            Err(_) if missed + 1 < MISSED => missed += 1,
            Err(_) => return lost("the server stopped answering"),
        }
    }
}

#[cfg(test)]
mod tests;
