//! Pings one server.

use ::redis::{Pipeline, Value};

use super::server::Server;
use crate::backend::Ping;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::clock::Clock;
use crate::error::Result;

impl<R: Role> Server<R> {
    /// Sends a write that changes nothing, whatever the key contains, within the time limit of a call. A server that
    /// refuses other writes also refuses this write: a replica, a server without free memory, a server that cannot save
    /// its data or has too few replicas. If the user has no rights to the key, the server refuses the write before it
    /// checks whether it can serve writes.
    pub(crate) async fn ping(&self, key: &str) -> Result<Ping> {
        let call = async {
            let live = self.connections.get().await?;
            let sent = Clock::Suspend.now();
            let mut command = Pipeline::with_capacity(1);
            command.cmd("SETRANGE").arg(key).arg(0).arg("");
            let answers = live.send_all(&command).await?;
            let ping = Ping::new(Clock::Suspend.now().since(sent));
            match answers.first() {
                Some(Value::ServerError(error)) => match (error.code(), error.details().unwrap_or_default()) {
                    // Another program uses the key. The server checks the type of the key last, so it serves writes.
                    ("WRONGTYPE", _) => Ok(ping),
                    ("NOPERM", details) if !details.contains("to run the") => {
                        Ok(ping.with_degraded(format!(
                            "only the connection was checked: to learn whether writes are served, give the user the key `{key}`"
                        )))
                    }
                    _ => Err(live.noted(Failure::of_reply(error))),
                },
                _ => Ok(ping),
            }
        };
        self.connections.within(self.timeout(), call).await.map_err(|failure| self.error(&failure))
    }
}
