//! The state of one member.

/// Asks a member for its state. It answers alone, without the others.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(in super::super) version: String,
    /// The id of the leader that the member knows; 0 for none.
    #[prost(uint64, tag = "4")]
    pub(in super::super) leader: u64,
    /// Whether the member has no vote yet, and answers no clients.
    #[prost(bool, tag = "10")]
    pub(in super::super) is_learner: bool,
}
