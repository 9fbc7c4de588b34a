//! Reads from each sentinel how it watches the primary, for the doctor.

use std::collections::HashMap;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, RedisResult};
use tokio::time::timeout;

use super::dial::{Answer, greet, silent};
use crate::backend::redis::config::{Config, Endpoint, Sentinels};
use crate::backend::remote::{Tls, host_port, join_all, socket};

/// Requests from each sentinel of the URL how it watches the primary: the number of other sentinels that it has found,
/// and the number of sentinels that must lose contact with the primary before a failover begins. Sends all requests at
/// once, each with the time limit of a call.
pub(crate) async fn sentinel_views(
    config: &Config,
    tls: Option<&Tls>,
    sentinels: &Sentinels,
) -> Vec<(String, Result<(u64, u64), Answer>)> {
    let limit = config.patience().max(config.timeout);
    let asked = sentinels.places.iter().map(|place| async move {
        let view = timeout(limit, ask(place, config, tls, &sentinels.master)).await;
        let silent = |_| Err(Answer::Silent(format!("no answer within {limit:?}")));
        (host_port(&place.0, place.1), view.unwrap_or_else(silent))
    });
    join_all(asked).await
}

async fn ask(
    (host, port): &Endpoint,
    config: &Config,
    tls: Option<&Tls>,
    master: &str,
) -> Result<(u64, u64), Answer> {
    let stream = socket::connect(host, *port).await.map_err(|failure| silent(&failure))?;
    let (mut sentinel, _driver, _) = greet(stream, host, tls, config.sentinel_handshake()).await?;
    let details = details(&mut sentinel, master).await?;
    let number = |name: &str| details.get(name).and_then(|text| text.parse().ok());
    let silent = || Answer::Silent(format!("it says nothing about its watch over `{master}`"));
    number("num-other-sentinels").zip(number("quorum")).ok_or_else(silent)
}

async fn details(sentinel: &mut MultiplexedConnection, master: &str) -> RedisResult<HashMap<String, String>> {
    let mut question = Cmd::new();
    question.arg("SENTINEL").arg("MASTER").arg(master);
    question.query_async(sentinel).await
}
