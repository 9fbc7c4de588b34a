//! The ping of one server.

use ::redis::{Pipeline, Value};

use super::server::Server;
use crate::backend::Ping;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::clock::Clock;
use crate::error::Result;

impl<R: Role> Server<R> {
    /// Sends a write that changes nothing, whatever the key holds, within the time of a call. A server that refuses
    /// writes refuses this one too: a replica, a full one, one that cannot save or has too few replicas.
    pub(crate) async fn ping(&self, key: &str) -> Result<Ping> {
        let call = async {
            let live = self.connections.get().await?;
            let sent = Clock::Suspend.now();
            let mut command = Pipeline::with_capacity(1);
            command.cmd("SETRANGE").arg(key).arg(0).arg("");
            match live.send_all(&command).await?.first() {
                // A user who may not use this key is told before the server checks anything else.
                Some(Value::ServerError(error)) if error.code() != "NOPERM" => {
                    Err(live.noted(Failure::of_reply(error)))
                }
                _ => Ok(Ping::new(Clock::Suspend.now().since(sent))),
            }
        };
        self.within(self.timeout(), call).await.map_err(|failure| self.error(&failure))
    }
}
