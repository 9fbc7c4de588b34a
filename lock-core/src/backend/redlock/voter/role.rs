//! The role of a connection to a voter: registration, heartbeats and clock readings.

use std::sync::Arc;

use super::boot::VoterSession;
use super::state::VoterState;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, Greeting, Role, SessionState, Shared};
use crate::backend::redis::scripts::{Script, constants::Source};
use crate::clock::Moment;

/// The release script of a voter. Its first part frees a plain lock without a look at the queue, because a voter has
/// none.
static RELEASE: Source = Source::new(
    concat!(
        include_str!("scripts/release.lua"),
        include_str!("../../redis/scripts/lib.lua"),
        include_str!("../../redis/scripts/release_queued.lua")
    ),
    &[],
);

/// One voter of a quorum.
#[derive(Debug)]
pub(super) struct VoterRole {
    pub(super) state: Arc<VoterState>,
}

impl Role for VoterRole {
    type Session = VoterSession;

    fn text(script: Script) -> &'static str {
        match script {
            // Every dial loads these scripts. The acquire scripts of a voter are not among them, because only a
            // bootstrap may load those.
            Script::Release => RELEASE.text(),
            other => other.text(),
        }
    }

    async fn admit(&self, _shared: &Shared<Self>, greeting: &Greeting<'_>) -> Result<VoterSession, Failure> {
        // First the clock: registering compares it with those of the peers.
        let (sent, received) = greeting.asked;
        self.state.observe(greeting.now, sent, received);
        VoterSession::register(&self.state, greeting.info, greeting.connection).await
    }

    async fn heartbeat(&self, connection: &Connection<VoterSession>, _shared: &Shared<Self>, _count: u32) {
        connection.session.look(connection).await;
    }
}

impl SessionState for VoterSession {
    fn clock(&self, now: i64, sent: Moment, received: Moment) {
        // Every answer with a time is checked, and before its caller reads it: a step is found before a grant in the
        // same answer counts.
        self.voter().observe(now, sent, received);
    }
}
