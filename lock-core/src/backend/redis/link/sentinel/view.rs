//! Reads from each sentinel how it watches the primary, for the doctor.

use std::collections::HashMap;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, RedisResult};
use tokio::time::timeout;

use super::dial::{Answer, greet, silent};
use crate::backend::BoxFuture;
use crate::backend::redis::config::{Address, Config, Endpoint, Sentinels};
use crate::backend::remote::{Tls, join_all, socket};

/// The answer of one sentinel: how it watches the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SentinelView {
    Watches {
        /// The number of other sentinels that this sentinel has found.
        others: u64,
        /// The number of sentinels that must lose contact with the primary before a failover begins.
        quorum: u64,
    },
    /// The sentinel refuses to answer. The text is the error code.
    Refused(String),
    /// The sentinel sent no usable answer. The text is the reason.
    Silent(String),
}

/// Returns the view of each sentinel of the URL. Sends all requests at once, each with the time limit of a call.
pub(crate) async fn sentinel_views(
    config: &Config,
    tls: Option<&Tls>,
    sentinels: &Sentinels,
) -> Vec<(String, SentinelView)> {
    let limit = config.patience().max(config.timeout);
    let asked = sentinels.places.iter().map(move |place| -> BoxFuture<'_, (String, SentinelView)> {
        Box::pin(async move {
            let view = match timeout(limit, ask(place, config, tls, &sentinels.master)).await {
                Ok(Ok(view)) => view,
                Ok(Err(Answer::Refused(code))) => SentinelView::Refused(code),
                Ok(Err(Answer::Silent(why) | Answer::Untrusted(why))) => SentinelView::Silent(why),
                Ok(Err(Answer::Primary(..) | Answer::Unknown(_))) => {
                    SentinelView::Silent("an answer to another request".to_owned())
                }
                Err(_) => SentinelView::Silent(format!("no answer within {limit:?}")),
            };
            let (host, port) = place.clone();
            (Address::Tcp { host, port }.to_string(), view)
        })
    });
    join_all(asked.collect()).await
}

async fn ask(
    (host, port): &Endpoint,
    config: &Config,
    tls: Option<&Tls>,
    master: &str,
) -> Result<SentinelView, Answer> {
    let stream = socket::connect(host, *port).await.map_err(|failure| silent(&failure))?;
    let (mut sentinel, _driver, _) = greet(stream, host, tls, config.sentinel_handshake()).await?;
    let details = details(&mut sentinel, master).await?;
    let number = |name: &str| details.get(name).and_then(|text| text.parse().ok());
    match (number("num-other-sentinels"), number("quorum")) {
        (Some(others), Some(quorum)) => Ok(SentinelView::Watches { others, quorum }),
        _ => Err(Answer::Silent(format!("it says nothing about its watch over `{master}`"))),
    }
}

async fn details(sentinel: &mut MultiplexedConnection, master: &str) -> RedisResult<HashMap<String, String>> {
    let mut question = Cmd::new();
    question.arg("SENTINEL").arg("MASTER").arg(master);
    question.query_async(sentinel).await
}
