//! Starts a session with the servers of a URL.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Client, Connector, CreateMode, Error};

use super::config::{Auth, Config};
use super::error::{Failure, failure};
use crate::backend::remote::{host_port, join_all, socket};
use crate::error::LockErrorKind;

/// The time limit of the search for the reason why no server grants a session.
const ANSWER: Duration = Duration::from_secs(5);

/// The time limit for the look-up of a host name.
const LOOK_UP: Duration = Duration::from_secs(1);

/// Returns the failure of a connect that got no session within `within`.
pub(super) fn silent(within: Duration) -> Failure {
    let text = format!(
        "no answer within {within:?}; is the server up, is it ZooKeeper, and does a firewall drop packets to it?"
    );
    Failure::new(LockErrorKind::Unavailable, text)
}

impl Config {
    /// Connects, and begins a session.
    pub(super) async fn connect(&self) -> Result<Client, Error> {
        self.connector().connect(&self.cluster().await).await
    }

    /// Begins another session. The servers are known to grant sessions of the timeout `session`.
    ///
    /// The client closes the connection to a server that is silent for a fifth of this timeout. The client's default is
    /// two fifths. With that default, two silent servers in a row would end every lock, because a lock is certain for
    /// only half of the timeout.
    pub(super) async fn connect_again(&self, session: Duration) -> Result<Client, Error> {
        self.connector().with_connection_timeout(session / 5).connect(&self.cluster().await).await
    }

    /// Returns the servers in the form that the client library expects, each with its protocol.
    ///
    /// If a name has several addresses, the client library uses only the first that accepts connections. So each
    /// address is added as another server. The name stays in the list, because it may resolve differently later. With
    /// TLS no address is added, because a certificate is issued for the name.
    async fn cluster(&self) -> String {
        let protocol = if self.files.is_some() { "tcp+tls" } else { "tcp" };
        let mut servers: Vec<_> = self
            .hosts
            .iter()
            .map(|(host, port)| format!("{protocol}://{}", host_port(host, *port)))
            .collect();
        if self.files.is_none() {
            for (host, port) in &self.hosts {
                // If a name is not found, the client library reports that.
                let found = timeout(LOOK_UP, socket::addresses(host, *port)).await;
                let found = found.ok().and_then(Result::ok).filter(|found| found.len() > 1);
                servers.extend(found.into_iter().flatten().map(|address| format!("tcp://{address}")));
            }
        }
        servers.join(",")
    }

    /// Returns a connector. A connector that finds no server fails at once, and the caller retries.
    fn connector(&self) -> Connector {
        let connector = Client::connector().with_session_timeout(self.session_timeout).with_fail_eagerly();
        let connector = match &self.secure {
            Some(secure) => secure.apply(connector),
            None => connector,
        };
        match (&self.credentials, self.auth) {
            (None, _) => connector,
            (Some((user, password)), Auth::Digest) => {
                connector.with_auth("digest", format!("{user}:{password}").as_bytes())
            }
            (Some((user, password)), Auth::Sasl) => with_sasl(connector, user, password),
        }
    }

    /// Checks whether the servers know the user. A server without SASL accepts every SASL login, and reports an unknown
    /// user only when a node is created for that user.
    pub(super) async fn check_user(&self, client: &Client) -> Result<(), Error> {
        if self.auth == Auth::Digest {
            return Ok(());
        }
        match client.create(&self.base, b"", &self.node(CreateMode::Persistent)).await {
            Err(error @ (Error::InvalidAcl | Error::AuthFailed)) => Err(error),
            // Any other answer shows that the servers know the user. The node exists, and the user may lack the right
            // to create it.
            _ => Ok(()),
        }
    }

    /// Returns the reason why there is no session. The search for the reason takes at most `within`.
    pub(super) async fn refusal(&self, error: &Error, within: Duration) -> Failure {
        match error {
            Error::NoHosts => self.look(within.min(ANSWER)).await,
            Error::AuthFailed => self.auth_failed(),
            _ => failure(error),
        }
    }

    fn auth_failed(&self) -> Failure {
        let text = match (&self.credentials, self.auth) {
            (None, _) => "it wants a user: name one (`user:password@`), with `?auth=sasl` if it wants SASL",
            (Some(_), Auth::Digest) => "it refuses the user and the password, or wants SASL (`?auth=sasl`)",
            (Some(_), Auth::Sasl) => {
                "it refuses the user and the password: for `auth=sasl` they are a line `user_<name>=\"<password>\"` of \
                 the section `Server` in the JAAS file of every server"
            }
        };
        Failure::new(LockErrorKind::Unavailable, text).permanent()
    }

    /// Returns the reason why no server grants a session. The client library does not report the reason, so this opens
    /// a separate connection to each server.
    async fn look(&self, within: Duration) -> Failure {
        let looks = self.hosts.iter().map(|place| async move {
            let look = timeout(within, self.look_at(place)).await;
            look.unwrap_or_else(|_| Err(silent(within)))
        });
        let seen = join_all(looks).await.into_iter().zip(&self.hosts);
        // The answer of a reachable server is more useful than the error of one that is down.
        match seen.min_by_key(|(seen, _)| seen.is_err()) {
            // With a single server, the error already contains its name.
            Some((Ok(failure) | Err(failure), _)) if self.hosts.len() == 1 => failure,
            Some((Ok(failure) | Err(failure), (host, port))) => failure.naming(host_port(host, *port)),
            None => failure(&Error::NoHosts),
        }
    }

    /// Returns the reason why a server grants no session. Fails if the server cannot be reached.
    async fn look_at(&self, (host, port): &(String, u16)) -> Result<Failure, Failure> {
        let stream = socket::connect(host, *port).await?;
        let (seen, advice) = match &self.secure {
            Some(secure) => (secure.look(stream, host).await, ""),
            None => (None, ", or does it want TLS on this port (`zookeepers://`)"),
        };
        let closed = || {
            let text = format!(
                "it takes the connection, but gives no session; is a majority of the servers up{advice}?"
            );
            Failure::new(LockErrorKind::Unavailable, text)
        };
        Ok(seen.unwrap_or_else(closed))
    }

    /// Ends the session of `client` from another connection, for tests.
    #[cfg(feature = "testkit")]
    pub(super) async fn end_session(&self, client: &Client) -> Result<(), Error> {
        loop {
            match self.connector().with_session(client.session().clone()).connect(&self.cluster().await).await
            {
                Ok(other) => {
                    let mut state = other.state_watcher();
                    // Dropping this client ends the session, except if the first client takes the session back first.
                    // The next iteration shows which of the two happened.
                    drop(other);
                    while !state.changed().await.is_terminated() {}
                }
                Err(Error::SessionExpired) => return Ok(()),
                // The two clients take the session from each other.
                Err(Error::NoHosts) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Adds an authentication with DIGEST-MD5. The servers define the realm.
#[cfg(feature = "zookeeper-sasl")]
fn with_sasl(connector: Connector, user: &str, password: &str) -> Connector {
    connector.with_sasl(zookeeper_client::SaslOptions::digest_md5(user.to_owned(), password.to_owned()))
}

/// Does nothing. A build without SASL refuses a URL with `auth=sasl` before this call.
#[cfg(not(feature = "zookeeper-sasl"))]
fn with_sasl(connector: Connector, _user: &str, _password: &str) -> Connector {
    connector
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the list contains a server without a protocol, the client connects to that server in plain text.
    #[tokio::test]
    async fn tls_is_for_every_server() {
        for (url, cluster) in [
            ("zookeeper://127.0.0.1,[::1]:1", "tcp://127.0.0.1:2181,tcp://[::1]:1"),
            ("zookeepers://a,b:1,[::1]", "tcp+tls://a:2281,tcp+tls://b:1,tcp+tls://[::1]:2281"),
        ] {
            assert_eq!(Config::parse(url).expect(url).cluster().await, cluster);
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_may_be_another_program() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = other.local_addr().expect("an address");
        let url = format!("zookeeper://{address}/locks?connect_timeout=200ms");
        let Err(error) = super::super::ZooKeeper::connect(&url).await else { panic!("it has no session") };
        let expected = "; is the server up, is it ZooKeeper, and does a firewall drop packets to it?";
        assert!(error.is_temporary() && error.to_string().contains(expected), "{error}");
    }
}
