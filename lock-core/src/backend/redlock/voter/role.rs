//! The role of a connection to a voter: registration, heartbeats and clock readings.

use std::sync::Arc;

use super::session::VoterSession;
use super::state::VoterState;
use crate::backend::NodeAnswer;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, Greeting, Role, SessionState, Shared};
use crate::clock::Moment;

/// One voter of a quorum.
#[derive(Debug)]
pub(super) struct VoterRole {
    pub(super) state: Arc<VoterState>,
}

impl Role for VoterRole {
    type Session = VoterSession;
    const QUEUES: bool = false;

    async fn admit(&self, _shared: &Shared<Self>, greeting: &Greeting<'_>) -> Result<VoterSession, Failure> {
        // The clock is recorded first, because the registration compares it with the clocks of the peers.
        let (sent, received) = greeting.asked;
        self.state.observe(greeting.now, sent, received);
        VoterSession::register(&self.state, greeting.info, greeting.connection).await
    }

    async fn heartbeat(&self, connection: &Connection<VoterSession>, _shared: &Shared<Self>, _count: u32) {
        connection.session.look(connection).await;
    }

    fn answered(&self, _shared: &Shared<Self>, answer: &NodeAnswer<'_>) {
        self.state.answered(answer);
    }
}

impl SessionState for VoterSession {
    fn clock(&self, now: i64, sent: Moment, received: Moment) {
        // Every answer with a time is checked before its caller reads it. So a step of the clock is detected before a
        // grant in that answer counts.
        self.voter().observe(now, sent, received);
    }
}
