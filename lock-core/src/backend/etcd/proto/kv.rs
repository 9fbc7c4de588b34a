//! The messages about keys and transactions.

use super::Header;

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(in super::super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(in super::super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(in super::super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(in super::super) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(in super::super) lease: i64,
}

/// Reads the keys from `key` to `range_end`. If `range_end` is empty, reads only `key`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(in super::super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(in super::super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(in super::super) limit: i64,
    #[prost(bool, tag = "9")]
    pub(in super::super) count_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(in super::super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(in super::super) more: bool,
    #[prost(int64, tag = "4")]
    pub(in super::super) count: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(in super::super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(in super::super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(in super::super) lease: i64,
    #[prost(bool, tag = "5")]
    pub(in super::super) ignore_value: bool,
    #[prost(bool, tag = "6")]
    pub(in super::super) ignore_lease: bool,
}

impl PutRequest {
    /// Returns a request that writes an empty value to `key`, without a lease. The caller may set other fields.
    pub(in super::super) fn new(key: &[u8]) -> Self {
        Self { key: key.to_vec(), ..Self::default() }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(in super::super) key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Ignored {}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct RequestOp {
    #[prost(oneof = "Op", tags = "1, 2, 3")]
    op: Option<Op>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Op {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

impl From<RangeRequest> for RequestOp {
    fn from(range: RangeRequest) -> Self {
        Self { op: Some(Op::Range(range)) }
    }
}

impl From<PutRequest> for RequestOp {
    fn from(put: PutRequest) -> Self {
        Self { op: Some(Op::Put(put)) }
    }
}

impl From<DeleteRangeRequest> for RequestOp {
    fn from(delete: DeleteRangeRequest) -> Self {
        Self { op: Some(Op::Delete(delete)) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct ResponseOp {
    #[prost(oneof = "Answer", tags = "1, 2, 3")]
    answer: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Answer {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(Ignored),
    #[prost(message, tag = "3")]
    Delete(Ignored),
}

impl ResponseOp {
    /// Returns the answer to a range request; `None` for any other answer.
    pub(in super::super) fn into_range(self) -> Option<RangeResponse> {
        match self.answer? {
            Answer::Range(range) => Some(range),
            Answer::Put(_) | Answer::Delete(_) => None,
        }
    }
}

/// A condition of a transaction. A key that does not exist has the revision 0. A condition on a range must hold for
/// each key of the range. If the range is empty, the condition must hold for a key that does not exist.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "Target", tags = "5, 6")]
    value: Option<Target>,
    #[prost(bytes = "vec", tag = "64")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Target {
    #[prost(int64, tag = "5")]
    Create(i64),
    #[prost(int64, tag = "6")]
    Mod(i64),
}

impl Compare {
    const EQUAL: i32 = 0;
    const LESS: i32 = 2;
    const CREATE: i32 = 1;
    const MOD: i32 = 2;

    /// Returns the condition that `key` was created at `revision`. With 0, `key` must not exist.
    pub(in super::super) fn created_at(key: Vec<u8>, revision: i64) -> Self {
        Self {
            result: Self::EQUAL,
            target: Self::CREATE,
            key,
            value: Some(Target::Create(revision)),
            range_end: Vec::new(),
        }
    }

    /// Returns the condition that `key` was last written at `revision`.
    pub(in super::super) fn modified_at(key: Vec<u8>, revision: i64) -> Self {
        Self { target: Self::MOD, value: Some(Target::Mod(revision)), ..Self::created_at(key, revision) }
    }

    /// Returns the condition that no key from `key` to `range_end` was created at `revision` or later. With 1, no such
    /// key may exist.
    pub(in super::super) fn none_created_since(key: Vec<u8>, range_end: Vec<u8>, revision: i64) -> Self {
        Self { result: Self::LESS, range_end, ..Self::created_at(key, revision) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(in super::super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(in super::super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(in super::super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(in super::super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(in super::super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(in super::super) responses: Vec<ResponseOp>,
}

impl TxnResponse {
    /// Returns the revision of the store after the transaction.
    pub(in super::super) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }

    /// Returns the answers to the range requests of the transaction, in their order.
    pub(in super::super) fn ranges(self) -> impl Iterator<Item = RangeResponse> {
        self.responses.into_iter().filter_map(ResponseOp::into_range)
    }
}
