//! The messages about the members of a cluster.

/// Requests the answering member's list of all members.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct MemberListRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub(in super::super) members: Vec<Member>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct Member {
    /// The id of the member; 0 if a proxy answers in place of the members.
    #[prost(uint64, tag = "1")]
    pub(in super::super) id: u64,
    #[prost(string, repeated, tag = "3")]
    pub(in super::super) peer_urls: Vec<String>,
    /// The addresses that the member announces to clients. Empty if the member has never started.
    #[prost(string, repeated, tag = "4")]
    pub(in super::super) client_urls: Vec<String>,
    /// Whether the member has no vote yet.
    #[prost(bool, tag = "5")]
    pub(in super::super) is_learner: bool,
}
