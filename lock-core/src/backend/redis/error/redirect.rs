//! The replies with which a Cluster node redirects a request instead of executing it.

use crate::backend::redis::config::Endpoint;

/// A redirect reply. The node that sends it has not executed the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot belongs to another node. An empty host means the host of the node that sent the redirect.
    Moved { slot: u16, place: Endpoint },
    /// The slot is being moved to another node, and the key is not on this node.
    Ask(Endpoint),
    /// The slot is being moved, and only some keys of the request are on this node.
    Later,
    /// The node cannot reach the other nodes, or the slot has no node.
    Down,
}

impl Redirect {
    /// Returns the redirect in an error reply with this code and text, or `None` if the reply is another error.
    pub(crate) fn parse(code: &str, details: &str) -> Option<Self> {
        match code {
            "MOVED" | "ASK" => {
                let (slot, place) = details.split_once(' ')?;
                let (host, port) = place.trim_end().rsplit_once(':')?;
                let (slot, port) = (slot.parse().ok()?, port.parse().ok()?);
                // The host is `?` if the node should announce a host name but has none.
                let host = if host == "?" { "" } else { host.trim_matches(['[', ']']) };
                let place = (host.to_owned(), port);
                Some(if code == "ASK" { Self::Ask(place) } else { Self::Moved { slot, place } })
            }
            "TRYAGAIN" => Some(Self::Later),
            "CLUSTERDOWN" => Some(Self::Down),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let place = |host: &str, port| (host.to_owned(), port);
        let table = [
            (
                "MOVED",
                "3999 127.0.0.1:6381",
                Some(Redirect::Moved { slot: 3999, place: place("127.0.0.1", 6381) }),
            ),
            ("MOVED", "1 :7000", Some(Redirect::Moved { slot: 1, place: place("", 7000) })),
            ("MOVED", "1 ?:7000", Some(Redirect::Moved { slot: 1, place: place("", 7000) })),
            (
                "MOVED",
                "1 redis-1.svc:7000",
                Some(Redirect::Moved { slot: 1, place: place("redis-1.svc", 7000) }),
            ),
            ("ASK", "7 ::1:6379", Some(Redirect::Ask(place("::1", 6379)))),
            ("ASK", "7 [::1]:6379", Some(Redirect::Ask(place("::1", 6379)))),
            ("MOVED", "", None),
            ("MOVED", "x 127.0.0.1:1", None),
            ("ASK", "1 127.0.0.1", None),
            ("READONLY", "1 127.0.0.1:1", None),
        ];
        for (code, details, expected) in table {
            assert_eq!(Redirect::parse(code, details), expected, "{code} {details}");
        }
        assert_eq!(Redirect::parse("TRYAGAIN", "Multiple keys"), Some(Redirect::Later));
        assert_eq!(Redirect::parse("CLUSTERDOWN", "Hash slot not served"), Some(Redirect::Down));
    }
}
