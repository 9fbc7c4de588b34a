//! The state of one member, and the alarms of all.

use super::Header;

/// Asks a member for its state. It answers alone, without the others.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(in super::super) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(in super::super) version: String,
    /// The size of the database file, in bytes.
    #[prost(int64, tag = "3")]
    pub(in super::super) db_size: i64,
    /// The id of the leader that the member knows; 0 for none.
    #[prost(uint64, tag = "4")]
    pub(in super::super) leader: u64,
    /// How many entries of the log are known to be committed.
    #[prost(uint64, tag = "5")]
    pub(in super::super) raft_index: u64,
    /// How many of them the member has applied; 0 before etcd 3.4.
    #[prost(uint64, tag = "7")]
    pub(in super::super) raft_applied_index: u64,
    /// The part of the file that is in use; 0 before etcd 3.4.
    #[prost(int64, tag = "9")]
    pub(in super::super) db_size_in_use: i64,
    /// Whether the member has no vote yet, and answers no clients.
    #[prost(bool, tag = "10")]
    pub(in super::super) is_learner: bool,
    /// The size of the file at which the alarm is raised; negative for none, 0 before etcd 3.6.
    #[prost(int64, tag = "12")]
    pub(in super::super) db_size_quota: i64,
}

/// Asks for all alarms: the default action is to get them. The request passes through the log of the cluster, as a
/// write does, and changes nothing.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct AlarmRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub(in super::super) alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(in super::super) member_id: u64,
    /// [`NOSPACE`](Self::NOSPACE), [`CORRUPT`](Self::CORRUPT), or one of a later version.
    #[prost(int32, tag = "2")]
    pub(in super::super) alarm: i32,
}

impl AlarmMember {
    /// The database is full.
    pub(in super::super) const NOSPACE: i32 = 1;
    /// The data of the member differ from those of the others.
    pub(in super::super) const CORRUPT: i32 = 2;
}
