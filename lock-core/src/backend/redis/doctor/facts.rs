//! The facts about one server: its answers to `INFO`, `CONFIG GET` and `TIME`.

use std::collections::HashMap;
use std::time::Duration;

use ::redis::{Pipeline, Value, from_redis_value};

use super::replica::Replica;
use crate::backend::redis::command::Server;
use crate::backend::redis::config::{Config, Durability};
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Role, field, server_time, text};
use crate::clock;
use crate::error::Result as LockResult;

/// The role of a server in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The one server of a store.
    Single,
    /// The primary that sentinels watch.
    Watched,
    /// A primary of a Cluster.
    Node,
    /// One of the voters of a quorum.
    #[cfg_attr(not(feature = "redlock"), allow(dead_code, reason = "only a quorum has voters"))]
    Voter,
}

impl Kind {
    /// Returns the names of the settings to read. Each name needs its own request, because servers before 7.0 accept
    /// one name per request.
    fn settings(self) -> &'static [&'static str] {
        static ALL: [&str; 6] = [
            "save",
            "appendfsync",
            "stop-writes-on-bgsave-error",
            "timeout",
            "min-replicas-to-write",
            "cluster-require-full-coverage",
        ];
        match self {
            Self::Voter => &ALL[..4],
            Self::Single | Self::Watched => &ALL[..5],
            Self::Node => &ALL,
        }
    }
}

/// The facts about one server.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(super) kind: Kind,
    pub(super) durability: Option<Durability>,
    /// The name of the library's user.
    pub(super) user: String,
    /// The answer to `INFO`. On a Cluster node, the answer to `CLUSTER INFO` follows.
    pub(super) info: String,
    /// The settings that could be read.
    pub(super) settings: HashMap<String, String>,
    /// The error code if the server refuses `CONFIG GET`.
    pub(super) refused: Option<String>,
    /// How far the server's clock is certainly ahead of this machine's clock, in ms. Negative if the server's clock is
    /// behind.
    pub(crate) ahead: i64,
}

impl Facts {
    fn read(
        config: &Config,
        kind: Kind,
        answers: &[Value],
        asked: (Duration, Duration),
    ) -> Result<Self, Failure> {
        let answer = |at: usize| answers.get(at).ok_or_else(|| Failure::unexpected(&Value::Nil));
        let now = server_time(answer(0)?)?;
        let mut info = text(answer(1)?)?.to_owned();
        let wanted = kind.settings().len();
        let (mut settings, mut refused) = (HashMap::<String, String>::new(), None);
        for answer in answers.iter().skip(2).take(wanted) {
            match answer {
                Value::ServerError(error) => refused = Some(error.code().to_owned()),
                answer => {
                    let found: HashMap<String, String> = from_redis_value(answer.clone()).unwrap_or_default();
                    settings.extend(found);
                }
            }
        }
        if kind == Kind::Node {
            info.push_str("\r\n");
            info.push_str(text(answer(2 + wanted)?)?);
        }
        let (durability, user) = (config.durability, config.user().to_owned());
        Ok(Self { kind, durability, user, info, settings, refused, ahead: ahead(now, asked) })
    }

    /// Returns a field of `INFO`.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        field(&self.info, name)
    }

    /// Returns a number of `INFO`, or 0 if the server has no such field.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Returns a setting, or `None` if it could not be read.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Returns the settings that could not be read.
    pub(super) fn unread(&self) -> Vec<&'static str> {
        let is_missing = |name: &&&str| !self.settings.contains_key(**name);
        self.kind.settings().iter().filter(is_missing).copied().collect()
    }

    /// Returns the replicas of the server.
    pub(crate) fn replicas(&self) -> Vec<Replica> {
        self.info.lines().filter_map(Replica::read).collect()
    }

    pub(super) fn is_voter(&self) -> bool {
        self.kind == Kind::Voter
    }
}

/// Returns how far the server's clock is certainly ahead of this machine's clock, in ms. The result is negative if the
/// server's clock is behind. The server's clock showed `now` (us).
fn ahead(now: i64, (sent, received): (Duration, Duration)) -> i64 {
    let since = |time: Duration| now.saturating_sub(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
    let (least, most) = (since(received), since(sent));
    // The server read its clock between `sent` and `received`. If `now` is in that interval, no difference is certain.
    if least > 0 { least / 1_000 } else { most.min(0) / 1_000 }
}

impl<R: Role> Server<R> {
    /// Reads the facts in one round trip, within the time limit of a call.
    pub(crate) async fn facts(&self, kind: Kind) -> LockResult<Facts> {
        let call = async {
            let live = self.connections.get().await?;
            let mut commands = Pipeline::with_capacity(3 + kind.settings().len());
            // TIME comes first, because the server needs more time for the other commands.
            commands.cmd("TIME").cmd("INFO");
            for name in kind.settings() {
                commands.cmd("CONFIG").arg("GET").arg(*name);
            }
            if kind == Kind::Node {
                commands.cmd("CLUSTER").arg("INFO");
            }
            let sent = clock::wall();
            let answers = live.send_all(&commands).await?;
            Facts::read(&self.shared().config, kind, &answers, (sent, clock::wall()))
        };
        self.connections.within(self.timeout(), call).await.map_err(|failure| self.error(&failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_about_a_clock_counts() {
        let at = |ms: u64| Duration::from_millis(1_000_000 + ms);
        let table = [(0, 0), (50, 0), (100, 0), (2_100, 2_000), (-3_000, -3_000)];
        for (shown, expected) in table {
            let now = (1_000_000 + shown) * 1_000;
            assert_eq!(ahead(now, (at(0), at(100))), expected, "{shown}");
        }
    }

    #[test]
    fn answers_are_read_and_a_refusal_is_kept() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let refusal =
            ::redis::parse_redis_value(b"-NOPERM this user has no permissions\r\n").expect("an error");
        let time = Value::Array(vec![bulk("1000"), bulk("0")]);
        let mut answers =
            vec![time, bulk("maxmemory:7\r\nslave0:ip=h,port=1,state=online,offset=1,lag=0\r\n")];
        answers.push(Value::Map(vec![(bulk("save"), bulk(""))]));
        answers.extend(vec![refusal; 4]);
        let config = Config::parse("redis://app:s3cret@h/").expect("a URL");
        let asked = (Duration::from_secs(1_000), Duration::from_secs(1_000));
        let facts = Facts::read(&config, Kind::Single, &answers, asked).expect("facts");
        assert_eq!((facts.number("maxmemory"), facts.number("none"), facts.ahead), (7, 0, 0));
        assert_eq!((facts.setting("save"), facts.refused.as_deref()), (Some(""), Some("NOPERM")));
        assert_eq!((facts.unread().len(), facts.replicas().len(), facts.user.as_str()), (4, 1, "app"));
        assert!(Facts::read(&config, Kind::Single, &[], asked).is_err());
    }
}
