//! Finds the problems of the servers' setup that endanger locks. This module reads the facts, and the [`rules`] derive
//! findings from them.

mod facts;
mod rules;
#[cfg(test)]
mod tests;

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zookeeper_client::{Client, Error};

use self::facts::{Ensemble, Facts, Quota};
use super::config::Config;
use super::error::Failure;
use super::store::ZooKeeper;
use crate::backend::Finding;
use crate::backend::remote::{host_port, join_all, socket};
use crate::error::{LockErrorKind, Result};

/// The node that lists the servers.
const CONFIG: &str = "/zookeeper/config";
/// A request that needs no session. Every server answers it, at least with a refusal.
const QUESTION: &[u8] = b"srvr";

impl ZooKeeper {
    /// Returns the findings about the servers. Each of the two steps has the time limit of a call.
    pub(super) async fn examine(&self) -> Result<Vec<Finding>> {
        let mut facts = self.within(self.facts()).await?;
        (facts.addresses, facts.silent) = tokio::join!(self.config.addresses(), self.config.silent());
        Ok(rules::findings(&facts))
    }

    async fn facts(&self) -> std::result::Result<Facts, Failure> {
        let session = self.any_session().await?;
        let (client, config) = (session.client(), &self.config);
        let mut unread = Vec::new();
        let answers =
            tokio::join!(client.get_config(), client.check_stat(&config.base), client.get_acl(&config.base));
        let ensemble = readable(answers.0, CONFIG, &mut unread)?.map(|(data, _)| Ensemble::read(&data));
        let children = answers.1?.map_or(0, |stat| stat.num_children);
        let acl = readable(answers.2, &config.base, &mut unread)?.map(|(acl, _)| acl).unwrap_or_default();
        Ok(Facts {
            given: session.timeout(),
            quotas: quotas(client, &config.base, &mut unread).await?,
            ensemble,
            children,
            acl,
            config: Config::clone(config),
            addresses: 0,
            silent: Vec::new(),
            unread,
        })
    }
}

/// Returns the answer, or `None` if there is no such node or this user may not read it. Adds the path of an unreadable
/// node to `unread`.
fn readable<T>(
    answer: std::result::Result<T, Error>,
    path: &str,
    unread: &mut Vec<String>,
) -> std::result::Result<Option<T>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::NoNode) => Ok(None),
        Err(Error::NoAuth) => {
            unread.push(path.to_owned());
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the quotas that apply to a path. The quota of a directory above the path also counts the nodes below the
/// path.
async fn quotas(
    client: &Client,
    base: &str,
    unread: &mut Vec<String>,
) -> std::result::Result<Vec<Quota>, Failure> {
    let above = base.match_indices('/').skip(1).map(|(end, _)| &base[..end]);
    let mut quotas = Vec::new();
    for path in above.chain([base]) {
        let node = |name: &str| format!("/zookeeper/quota{path}/{name}");
        let (limits, used) = (node("zookeeper_limits"), node("zookeeper_stats"));
        let Some((limits, _)) = readable(client.get_data(&limits).await, &limits, unread)? else { continue };
        let used = readable(client.get_data(&used).await, &used, unread)?;
        let used = used.map(|(used, _)| used).unwrap_or_default();
        quotas.push(Quota::read(path, &limits, &used));
    }
    Ok(quotas)
}

impl Config {
    /// Returns the number of addresses of the servers that the URL names.
    async fn addresses(&self) -> usize {
        let look_ups = self.hosts.iter().map(|(host, port)| async move {
            let found = timeout(self.timeout, socket::addresses(host, *port)).await;
            // A name that is not found counts as one address.
            found.ok().and_then(io::Result::ok).map_or(1, |found| found.len())
        });
        join_all(look_ups).await.into_iter().sum()
    }

    /// Returns the servers that do not answer, each with the reason.
    async fn silent(&self) -> Vec<(String, String)> {
        let looks = self.hosts.iter().map(|place| async move {
            let answer = timeout(self.timeout, self.answers(place)).await;
            let answer = answer.unwrap_or_else(|_| Err(Failure::no_answer(self.timeout)));
            answer.err().map(|failure| (host_port(&place.0, place.1), failure.text().to_owned()))
        });
        join_all(looks).await.into_iter().flatten().collect()
    }

    async fn answers(&self, (host, port): &(String, u16)) -> std::result::Result<(), Failure> {
        let mut stream = socket::connect(host, *port).await?;
        if let Some(secure) = &self.secure {
            return secure.look(stream, host).await.map_or(Ok(()), Err);
        }
        let unreachable = |error: io::Error| socket::unreachable(&error);
        stream.write_all(QUESTION).await.map_err(unreachable)?;
        match stream.read(&mut [0]).await.map_err(unreachable)? {
            0 => Err(Failure::new(LockErrorKind::Unavailable, "it closes the connection without an answer")),
            _ => Ok(()),
        }
    }
}
