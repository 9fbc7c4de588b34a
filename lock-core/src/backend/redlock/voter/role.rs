//! What a connection to a voter does for the quorum.

use std::sync::Arc;

use super::boot::VoterSession;
use super::state::VoterState;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, Greeting, Role, SessionState, Shared};
use crate::backend::redis::scripts::Script;
use crate::clock::Moment;

/// A release that wakes no queue, because a voter has none, and that a grant by the hot path of the gate costs no look at one.
const RELEASE: &str = concat!(
    include_str!("scripts/release.lua"),
    include_str!("../../redis/scripts/lib.lua"),
    include_str!("../../redis/scripts/release_queued.lua")
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
            Script::Release => RELEASE,
            other => other.text(),
        }
    }

    async fn admit(&self, _shared: &Shared<Self>, greeting: &Greeting<'_>) -> Result<VoterSession, Failure> {
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
        self.voter().observe(now, sent, received);
    }
}
