//! The messages about leases. A lease ends if no keep-alive arrives in time, and all keys that are bound to it are
//! deleted. Times are in seconds.

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub(in super::super) ttl: i64,
    #[prost(int64, tag = "2")]
    pub(in super::super) id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseGrantResponse {
    /// The ttl that the server granted. The server raises a shorter request to its minimum.
    #[prost(int64, tag = "3")]
    pub(in super::super) ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub(in super::super) id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseRevokeResponse {}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub(in super::super) id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseKeepAliveResponse {
    #[prost(int64, tag = "2")]
    pub(in super::super) id: i64,
    /// The new ttl of the lease; 0 if there is no such lease.
    #[prost(int64, tag = "3")]
    pub(in super::super) ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseTimeToLiveRequest {
    #[prost(int64, tag = "1")]
    pub(in super::super) id: i64,
    /// Whether the answer lists the keys that are bound to the lease.
    #[prost(bool, tag = "2")]
    pub(in super::super) keys: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseTimeToLiveResponse {
    /// The remaining time; -1 if there is no such lease.
    #[prost(int64, tag = "3")]
    pub(in super::super) ttl: i64,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(in super::super) keys: Vec<Vec<u8>>,
}

/// Requests the answering member's list of all leases.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseLeasesRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseLeasesResponse {
    #[prost(message, repeated, tag = "2")]
    pub(in super::super) leases: Vec<LeaseStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct LeaseStatus {
    #[prost(int64, tag = "1")]
    pub(in super::super) id: i64,
}
