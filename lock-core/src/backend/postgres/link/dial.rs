//! Dials a server within a deadline, and checks that it can hold locks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::connect::{Way, connect};
use super::probe::{Facts, check_version};
use super::session::Session;
use super::shared::Shared;
use crate::backend::postgres::config::Host;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::remote::{race, socket};
use crate::error::LockErrorKind;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Statements that need no session settings, such as the migration. The dial sets nothing.
    Bare,
    /// Notifications or advisory locks.
    Session,
    /// Locks in the tables. The tables must exist.
    Tables,
}

/// How long one host, or one address of a host, is tried alone. After this time, the next one is also tried.
const HEAD_START: Duration = Duration::from_millis(500);

/// Connects once to the primary, within `limit`. Tries the hosts in their order, and keeps the first one that can hold
/// locks.
pub(crate) async fn dial(shared: &Shared, goal: Goal, limit: Duration) -> Result<Session, Failure> {
    let dialled = match &shared.config.opener {
        Some(opener) => {
            let opened = timeout(limit, reach(shared, Way::Opener(opener), goal)).await;
            opened.unwrap_or_else(|_| {
                Err(unavailable(format!("the application opened no connection within {limit:?}")))
            })
        }
        None => {
            let hosts = &shared.address().0;
            let attempts = hosts.iter().map(|host| try_host(shared, host, goal, limit));
            let reached = race::first(attempts, HEAD_START).await;
            reached.unwrap_or_else(|| Err(unavailable("there is no host to connect to")))
        }
    };
    // No caller's request was sent yet, so this failure leaves no request in doubt.
    dialled.map_err(Failure::before_any_request)
}

async fn try_host(shared: &Shared, host: &Host, goal: Goal, limit: Duration) -> Result<Session, Failure> {
    let reached = timeout(limit, any_address(shared, host, goal)).await;
    let late =
        || format!("no answer within {limit:?}; is the server up, and does a firewall drop packets to it?");
    let reached = reached.unwrap_or_else(|_| Err(unavailable(late())));
    match shared.address().0.len() {
        1 => reached,
        _ => reached.map_err(|failure| one_of_several(failure).naming(host)),
    }
}

fn unavailable(text: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::new(LockErrorKind::Unavailable, text)
}

/// Tries the addresses of a host. A host name may resolve to several servers, and one of them is the primary.
async fn any_address(shared: &Shared, host: &Host, goal: Goal) -> Result<Session, Failure> {
    let ways = match host {
        Host::Tcp { host, port } => {
            let found = socket::addresses(host, *port).await.map_err(|error| socket::unreachable(&error))?;
            found.into_iter().map(|address| Way::Tcp(host, address)).collect()
        }
        Host::Unix { directory, port } => vec![Way::Unix(directory.join(format!(".s.PGSQL.{port}")))],
    };
    let is_one = ways.len() == 1;
    let attempts = ways.into_iter().map(|way| async move {
        let reached = reach(shared, way, goal).await;
        if is_one { reached } else { reached.map_err(one_of_several) }
    });
    let reached = race::first(attempts, HEAD_START).await;
    reached.unwrap_or_else(|| Err(unavailable("the name has no address")))
}

/// Returns the failure of one of several servers. The failure of a standby becomes temporary, because the primary may
/// come back, or another server may become the primary.
fn one_of_several(failure: Failure) -> Failure {
    if failure.reaction == Reaction::Reconnect { failure.temporary() } else { failure }
}

/// Opens a connection in the given way, and checks that its server can hold locks.
async fn reach(shared: &Shared, way: Way<'_>, goal: Goal) -> Result<Session, Failure> {
    let sets_later = shared.config.session_pooling;
    let opened = match connect(shared, &way, !sets_later).await {
        // The pooler refuses the settings, so the login is repeated without them.
        Err(failure) if failure.reaction == Reaction::WithoutSettings => connect(shared, &way, false).await,
        opened => opened,
    };
    let session = Session::start(opened?, Arc::clone(shared.listeners()));
    if sets_later && goal != Goal::Bare && session.is_driven_here() {
        session.live.batch(&shared.config.set_settings()).await?;
    }
    // Both requests are sent at once, because a caller with a deadline may be waiting for this dial.
    let needs_tables = goal == Goal::Tables;
    let (facts, version) = tokio::join!(Facts::ask(&session.live, &shared.config.schema), async {
        if needs_tables { check_version(&session.live, &shared.statements.version).await } else { Ok(()) }
    });
    let facts = facts?;
    // The facts are checked before the version: if the server cannot hold locks, the facts name the reason.
    facts.examine()?;
    // A client that a pool lends counts as pooled, because the store receives no notifications over it.
    shared.set_pooled(facts.is_pooled() || !session.is_driven_here());
    if !facts.is_pooled() || sets_later {
        session.live.set_process(facts.process.clone());
    }
    if needs_tables && !facts.has_tables {
        return Err(Failure::not_migrated());
    }
    version?;
    if needs_tables && session.is_driven_here() && facts.has_settings() {
        session.live.prepare(&shared.statements.often(), shared.own_sessions()).await?;
    }
    Ok(session)
}
