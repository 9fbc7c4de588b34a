//! Checks the answer of a server to `INFO` before the server may hold locks. This check is the *probe*.

use ::redis::{FromRedisValue, Value, from_redis_value_ref};

use crate::backend::redis::error::Failure;
use crate::backend::redis::keyspace::Keyspace;
use crate::error::LockErrorKind;

/// The oldest supported server. Redis 6.2 has all script features and RESP3 features that this backend needs.
const OLDEST: (u32, u32) = (6, 2);
/// The oldest supported node of a Cluster: Redis 7.0 introduced sharded messages.
const OLDEST_NODE: (u32, u32) = (7, 0);

/// The properties of a server that cause a warning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The eviction policy, if it can evict locks.
    pub(crate) evicts: Option<String>,
    /// Whether the server has replicas, so that a failover is possible.
    pub(crate) replicated: bool,
}

/// Examines the answer to `INFO`. Returns an error if the server cannot hold locks.
pub(crate) fn examine(info: &str, keyspace: Keyspace) -> Result<Facts, Failure> {
    let field = |name: &str| field(info, name);
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);

    if field("redis_mode") == Some("sentinel") {
        return Err(Failure::new(
            LockErrorKind::Unsupported,
            "this is a Sentinel and holds no data; write `redis+sentinel://` and the name of the primary behind the `/`",
        ));
    }
    let on_cluster = keyspace == Keyspace::Slots;
    let is_node = field("redis_mode") == Some("cluster") || number("cluster_enabled") == 1;
    if is_node != on_cluster {
        let text = if is_node {
            "this is a node of a Redis Cluster: write `redis+cluster://` instead of `redis://` in the URL"
        } else {
            "this is no node of a Redis Cluster: write `redis://` instead of `redis+cluster://` in the URL"
        };
        return Err(Failure::new(LockErrorKind::Unsupported, text));
    }
    // A version that cannot be parsed is accepted.
    let older =
        |than| field("redis_version").filter(|version| version_of(version).is_some_and(|it| it < than));
    if let Some(version) = older(if on_cluster { OLDEST_NODE } else { OLDEST }) {
        let text = if on_cluster {
            format!("the node is Redis {version}; a Cluster needs 7.0, for sharded messages")
        } else {
            format!(
                "the server is Redis {version}; 6.2 is the oldest that works, 7.0 or later is recommended"
            )
        };
        return Err(Failure::new(LockErrorKind::Unsupported, text));
    }
    // The server answers INFO while it loads its data, but most other commands would fail.
    if number("loading") == 1 {
        return Err(Failure::new(LockErrorKind::Unavailable, "the server is still loading its data"));
    }
    // A replica loads scripts and answers reads, but refuses writes. Without this check, the first lock would fail.
    if field("role") == Some("slave") {
        return Err(Failure::replica());
    }
    let evicts =
        // Without a limit, the server evicts nothing, whatever the policy is.
        field("maxmemory_policy").filter(|policy| *policy != "noeviction" && number("maxmemory") > 0);
    Ok(Facts { evicts: evicts.map(str::to_owned), replicated: number("connected_slaves") > 0 })
}

/// Returns one field of an answer to `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

pub(crate) fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Returns the text of an answer.
pub(crate) fn text(answer: &Value) -> Result<&str, Failure> {
    match answer {
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Ok(text),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| Failure::unexpected(answer)),
        Value::ServerError(error) => Err(Failure::of_reply(error)),
        _ => Err(Failure::unexpected(answer)),
    }
}

/// Reads an answer of a known shape. The driver casts a number to a smaller type without a check, so `T` must contain
/// every number as `i64`.
pub(crate) fn parsed<T: FromRedisValue>(answer: &Value) -> Result<T, Failure> {
    match answer {
        Value::ServerError(error) => Err(Failure::of_reply(error)),
        _ => from_redis_value_ref(answer).map_err(|_| Failure::unexpected(answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:0\r\n\
                        maxmemory_policy:noeviction\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n\
                        connected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n";

    #[test]
    fn a_plain_primary_is_fine() {
        let facts = Facts { evicts: None, replicated: false };
        assert_eq!(examine(GOOD, Keyspace::Whole).expect("fine"), facts);
    }

    #[test]
    fn what_cannot_hold_locks_is_refused() {
        let table = [
            ("redis_mode:standalone", "redis_mode:cluster", "redis+cluster://", false),
            ("redis_mode:standalone", "redis_mode:sentinel", "redis+sentinel://", false),
            ("cluster_enabled:0", "cluster_enabled:1", "redis+cluster://", false),
            ("redis_version:7.0.15", "redis_version:6.0.16", "6.2 is the oldest", false),
            ("redis_version:7.0.15", "redis_version:5.0.3", "6.2 is the oldest", false),
            ("role:master", "role:slave", "connect to its primary", false),
            ("loading:0", "loading:1", "loading", true),
        ];
        for (from, to, expected, temporary) in table {
            let failure = examine(&GOOD.replace(from, to), Keyspace::Whole).expect_err(to);
            assert!(format!("{failure:?}").contains(expected), "{to}: {failure:?}");
            assert_eq!(!failure.is_permanent(), temporary, "{to}");
        }
    }

    #[test]
    fn what_endangers_locks_is_noticed() {
        let evicting = GOOD.replace("maxmemory_policy:noeviction", "maxmemory_policy:volatile-ttl");
        assert_eq!(examine(&evicting, Keyspace::Whole).expect("no limit, no eviction").evicts, None);
        let evicting = evicting.replace("maxmemory:0", "maxmemory:3145728");
        assert_eq!(
            examine(&evicting, Keyspace::Whole).expect("a warning").evicts.as_deref(),
            Some("volatile-ttl")
        );
        let replicated = GOOD.replace("connected_slaves:0", "connected_slaves:2");
        assert!(examine(&replicated, Keyspace::Whole).expect("a warning").replicated);
    }

    #[test]
    fn an_answer_of_another_shape_is_unexpected() {
        let (text, number) = (Value::BulkString(b"a".to_vec()), Value::Int(7));
        let answer = Value::Array(vec![text.clone(), Value::Array(vec![number.clone()])]);
        assert_eq!(parsed::<(String, (i64,))>(&answer).expect("its shape"), ("a".to_owned(), (7,)));
        for answer in [Value::Nil, number.clone(), Value::Array(vec![text, number])] {
            let failure = parsed::<(String, (i64,))>(&answer).expect_err("another shape");
            assert!(format!("{failure:?}").contains("unexpected answer"), "{failure:?}");
        }
    }

    #[test]
    fn versions_are_read_and_unknown_ones_accepted() {
        for (version, accepted) in
            [("6.2.0", true), ("7.4.1", true), ("10.0", true), ("255.255.255", true), ("x", true)]
        {
            let info = GOOD.replace("7.0.15", version);
            assert_eq!(examine(&info, Keyspace::Whole).is_ok(), accepted, "{version}");
        }
    }
}
