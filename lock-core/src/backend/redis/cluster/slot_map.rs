//! The view of one node: which node has which slots.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use ::redis::Value;

use crate::backend::redis::config::Endpoint;
use crate::backend::redis::link::{self, field};
use crate::backend::redis::slot::SLOTS;

/// The answer of one node to `CLUSTER SLOTS` and `CLUSTER INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotMap {
    /// The current epoch, a number that increases with every failover. All nodes that can reach each other have the
    /// same epoch.
    pub(super) epoch: u64,
    /// Whether the node can reach more than half of the nodes.
    pub(super) is_whole: bool,
    ranges: Vec<Range>,
    /// The ids of the nodes. No two Clusters have an id in common.
    ids: HashSet<String>,
}

/// A range of slots, and the nodes that have these slots.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    primary: Endpoint,
    replicas: Vec<Endpoint>,
}

impl SlotMap {
    /// Reads the answers of the node on `host` to `CLUSTER INFO` and `CLUSTER SLOTS`. If the answer has no host for a
    /// node, that node is on `host`.
    pub(super) fn read(info: &str, slots: &Value, host: &str) -> Option<Self> {
        let Value::Array(ranges) = slots else { return None };
        let nodes = ranges
            .iter()
            .filter_map(|range| if let Value::Array(parts) = range { parts.get(2..) } else { None });
        let ids = nodes
            .flatten()
            .filter_map(|node| if let Value::Array(parts) = node { text(parts.get(2)?) } else { None });
        Some(Self {
            ids: ids.map(str::to_owned).collect(),
            epoch: field(info, "cluster_current_epoch")?.parse().ok()?,
            is_whole: field(info, "cluster_state") == Some("ok"),
            ranges: ranges.iter().map(|range| Range::read(range, host)).collect::<Option<_>>()?,
        })
    }

    /// Returns whether this view supersedes `other`. The view of a node that can reach most nodes supersedes the view
    /// of a node that cannot. A node that cannot reach most nodes reports an old state, and its replicas increase their
    /// epochs in elections that they cannot win. If both nodes, or neither, can reach most nodes, the later epoch
    /// decides.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        (self.is_whole, self.epoch) > (other.is_whole, other.epoch)
    }

    /// Returns whether this view has no node ids although `known` has some. If so, the node that sent the view has left
    /// its Cluster.
    pub(super) fn tells_less_than(&self, known: &Self) -> bool {
        !known.ids.is_empty() && self.ids.is_empty()
    }

    /// Returns whether this view is of another Cluster: it has no node in common with `known`.
    pub(super) fn is_of_others_than(&self, known: &Self) -> bool {
        !known.ids.is_empty() && !self.ids.is_empty() && known.ids.is_disjoint(&self.ids)
    }

    /// Returns each range of slots with its node.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (RangeInclusive<usize>, &Endpoint)> {
        let slots = |range: &Range| usize::from(range.first)..=usize::from(range.last);
        self.ranges.iter().map(move |range| (slots(range), &range.primary))
    }

    /// Returns whether `place` is the primary of some slots.
    pub(super) fn names(&self, place: &Endpoint) -> bool {
        self.ranges.iter().any(|range| range.primary == *place)
    }

    /// Returns every node, the primaries first.
    pub(super) fn nodes(&self) -> Vec<Endpoint> {
        let primaries = self.ranges.iter().map(|range| &range.primary);
        let replicas = self.ranges.iter().flat_map(|range| &range.replicas);
        let mut nodes: Vec<Endpoint> = Vec::new();
        for place in primaries.chain(replicas) {
            if !nodes.contains(place) {
                nodes.push(place.clone());
            }
        }
        nodes
    }
}

impl Range {
    /// Reads `[first, last, [host, port, ..], ..]`. The primary comes first.
    fn read(range: &Value, host: &str) -> Option<Self> {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else { return None };
        let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
        let mut places = nodes.iter().map(|node| place(node, host));
        let primary = places.next()??;
        let replicas = places.collect::<Option<_>>()?;
        (first <= last && last < SLOTS).then_some(Self { first, last, primary, replicas })
    }
}

/// Reads `[host, port, id, more, ..]`.
fn place(node: &Value, host: &str) -> Option<Endpoint> {
    let Value::Array(parts) = node else { return None };
    let [named, Value::Int(port), ..] = parts.as_slice() else { return None };
    let named = match named {
        // The node does not know its own address. It has the address to which the request was sent.
        Value::Nil => "",
        named => text(named)?,
    };
    let named = match named {
        "" => host,
        // The node should announce a host name but has none. Then its properties contain its address.
        "?" => parts.get(3).and_then(address).unwrap_or(host),
        named => named,
    };
    Some((named.to_owned(), u16::try_from(*port).ok()?))
}

/// Returns the `ip` of `[name, value, ..]`.
fn address(more: &Value) -> Option<&str> {
    match more {
        Value::Array(more) => {
            more.chunks_exact(2).find(|pair| text(&pair[0]) == Some("ip")).and_then(|pair| text(&pair[1]))
        }
        Value::Map(more) => {
            more.iter().find(|(name, _)| text(name) == Some("ip")).and_then(|(_, ip)| text(ip))
        }
        _ => None,
    }
    .filter(|ip| !ip.is_empty())
}

fn text(value: &Value) -> Option<&str> {
    link::text(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Option<&str>, port: i64) -> Value {
        let host = host.map_or(Value::Nil, |host| Value::BulkString(host.as_bytes().to_vec()));
        Value::Array(vec![
            host,
            Value::Int(port),
            Value::BulkString(b"id".to_vec()),
            Value::Array(Vec::new()),
        ])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let mut parts = vec![Value::Int(first), Value::Int(last)];
        parts.extend(nodes);
        Value::Array(parts)
    }

    const INFO: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_current_epoch:6\r\n";

    #[test]
    fn a_view_is_read() {
        let slots = Value::Array(vec![
            range(0, 2, vec![node(Some("a"), 1), node(Some("b"), 2)]),
            range(4, 4, vec![node(Some(""), 3)]),
            range(5, 5, vec![node(None, 4)]),
            range(6, 16_383, vec![node(Some("?"), 5), node(Some("a"), 1)]),
        ]);
        let view = SlotMap::read(INFO, &slots, "h").expect("a view");
        assert_eq!((view.epoch, view.is_whole), (6, true));
        let ranges = view.ranges().map(|(slots, (host, port))| (slots, host.as_str(), *port));
        let expected = [(0..=2, "a", 1), (4..=4, "h", 3), (5..=5, "h", 4), (6..=16_383, "h", 5)];
        assert_eq!(ranges.collect::<Vec<_>>(), expected);
        let nodes: Vec<u16> = view.nodes().iter().map(|(_, port)| *port).collect();
        assert_eq!(nodes, [1, 3, 4, 5, 2]);
    }

    #[test]
    fn clusters_without_a_common_node_are_others() {
        let view = |ids: &[&str]| SlotMap {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..SlotMap::default()
        };
        for (known, other, expected) in [
            (&["a", "b"][..], &["b", "c"][..], false),
            (&["a", "b"], &["c"], true),
            // No node is known yet, or a node reports no ids.
            (&[], &["c"], false),
            (&["a"], &[], false),
        ] {
            assert_eq!(view(other).is_of_others_than(&view(known)), expected, "{known:?} {other:?}");
        }
        assert!(view(&[]).tells_less_than(&view(&["a"])));
        assert!(!view(&[]).tells_less_than(&view(&[])) && !view(&["b"]).tells_less_than(&view(&["a"])));
    }

    #[test]
    fn a_node_without_a_host_name_is_at_its_address() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let pairs = [("hostname", ""), ("ip", "10.0.0.7")];
        let array = Value::Array(pairs.iter().flat_map(|(name, value)| [text(name), text(value)]).collect());
        let map = Value::Map(pairs.iter().map(|(name, value)| (text(name), text(value))).collect());
        for more in [array, map] {
            let node = Value::Array(vec![text("?"), Value::Int(6379), text("id"), more]);
            assert_eq!(place(&node, "h"), Some(("10.0.0.7".to_owned(), 6379)));
        }
        let node = Value::Array(vec![text("?"), Value::Int(6379), text("id"), Value::Array(Vec::new())]);
        assert_eq!(place(&node, "h"), Some(("h".to_owned(), 6379)));
    }

    #[test]
    fn what_is_no_view_is_none() {
        for (info, slots) in [
            ("", Value::Array(Vec::new())),
            ("cluster_current_epoch:x", Value::Array(Vec::new())),
            (INFO, Value::Nil),
            (INFO, Value::Array(vec![Value::Nil])),
            (INFO, Value::Array(vec![range(0, 1, Vec::new())])),
            (INFO, Value::Array(vec![range(2, 1, vec![node(Some("a"), 1)])])),
            (INFO, Value::Array(vec![range(0, 16_384, vec![node(Some("a"), 1)])])),
            (INFO, Value::Array(vec![range(0, 1, vec![node(Some("a"), 70_000)])])),
        ] {
            assert_eq!(SlotMap::read(info, &slots, "h"), None, "{info} {slots:?}");
        }
    }

    #[test]
    fn who_sees_the_others_counts_and_then_the_newer_epoch() {
        let view = |epoch, is_whole| SlotMap { epoch, is_whole, ..SlotMap::default() };
        assert!(view(1, true).is_newer_than(&view(2, false)));
        assert!(view(2, true).is_newer_than(&view(1, true)));
        assert!(view(2, false).is_newer_than(&view(1, false)));
        assert!(!view(1, true).is_newer_than(&view(1, true)));
    }
}
