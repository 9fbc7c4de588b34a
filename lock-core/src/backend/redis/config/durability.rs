//! The options `durability` and `min_replicas`.

use std::fmt;

/// The largest number of replicas that a URL may require. A larger number is certainly a typing error.
const MOST: u32 = 1_000;

/// The copies of a lock that must exist before the lock counts as granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// This many replicas have the lock in memory.
    Replicas(u32),
    /// This many replicas have the lock on disk. If `local`, the primary has it on disk too.
    Aof { local: bool, replicas: u32 },
}

/// What to do if `min-replicas-to-write` cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MinReplicas {
    /// Refuse the server.
    #[default]
    Read,
    /// Assume that the setting is right. A hosted server may forbid CONFIG.
    Assumed,
}

/// Formats the durability as in a URL.
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replicas(replicas) => write!(f, "replicas({replicas})"),
            Self::Aof { local, replicas } => write!(f, "aof({},{replicas})", u8::from(*local)),
        }
    }
}

impl Durability {
    /// Reads `replicas(1)` or `aof(1,0)`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, arguments) = text.strip_suffix(')')?.split_once('(')?;
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number <= MOST);
        match name {
            "replicas" => number(arguments).filter(|replicas| *replicas > 0).map(Self::Replicas),
            // At least one number must not be 0: `aof(0,0)` would require no copy at all.
            "aof" => {
                let (local, replicas) = arguments.split_once(',')?;
                let (local, replicas) = (number(local)?, number(replicas)?);
                (local <= 1 && local + replicas > 0).then_some(Self::Aof { local: local == 1, replicas })
            }
            _ => None,
        }
    }

    /// Returns the number of replicas that must have the lock.
    pub(crate) fn replicas(self) -> u32 {
        match self {
            Self::Replicas(replicas) | Self::Aof { replicas, .. } => replicas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let aof = |local, replicas| Some(Durability::Aof { local, replicas });
        let table = [
            ("replicas(1)", Some(Durability::Replicas(1))),
            ("replicas( 2 )", Some(Durability::Replicas(2))),
            ("aof(1,0)", aof(true, 0)),
            ("aof(0,2)", aof(false, 2)),
            ("aof(1, 1)", aof(true, 1)),
            ("replicas(0)", None),
            ("replicas(-1)", None),
            ("replicas(1001)", None),
            ("replicas()", None),
            ("replicas(1", None),
            ("replicas=1", None),
            ("replica(1)", None),
            ("aof(0,0)", None),
            ("aof(2,0)", None),
            ("aof(1)", None),
            ("aof", None),
            ("1", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(Durability::parse(text), expected, "{text}");
            if let Some(durability) = expected {
                assert_eq!(Durability::parse(&durability.to_string()), expected, "{text}");
            }
        }
    }
}
