//! The messages about watches.

use super::KeyValue;

/// A request on the stream of a watch.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
}

impl WatchRequest {
    /// Returns the request for every later change of the keys from `key` to `range_end`.
    ///
    /// The watch does not begin at an earlier revision, because the server would then replay the changes since that
    /// revision. The server starts replays only ten times a second.
    pub(in super::super) fn create(key: Vec<u8>, range_end: Vec<u8>) -> Self {
        Self { create: Some(WatchCreateRequest { key, range_end }) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct WatchResponse {
    /// Whether this answer confirms that the watch has begun. The watch reports every later change.
    #[prost(bool, tag = "3")]
    pub(in super::super) created: bool,
    /// Whether the server has ended the watch, for example because there is no leader.
    #[prost(bool, tag = "4")]
    pub(in super::super) canceled: bool,
    #[prost(message, repeated, tag = "11")]
    pub(in super::super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct Event {
    /// 0 for a put, 1 for a deletion.
    #[prost(int32, tag = "1")]
    pub(in super::super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(in super::super) kv: Option<KeyValue>,
}
