//! The messages and fields of etcd's API, version 3, that this library uses. They are written by hand after etcd's
//! `rpc.proto` and `kv.proto`, so a build needs no `protoc`.

mod auth;
mod cluster;
mod kv;
mod lease;
mod maintenance;
mod watch;

pub(super) use auth::{AuthenticateRequest, AuthenticateResponse};
pub(super) use cluster::{Member, MemberListRequest, MemberListResponse};
pub(super) use kv::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
    TxnResponse,
};
pub(super) use lease::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
pub(super) use maintenance::{AlarmMember, AlarmRequest, AlarmResponse, StatusRequest, StatusResponse};
pub(super) use watch::{Event, WatchRequest, WatchResponse};

/// The header of every answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Header {
    /// The id of the member that answers.
    #[prost(uint64, tag = "2")]
    pub(super) member_id: u64,
    /// The revision of the whole store when the request was executed.
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}
