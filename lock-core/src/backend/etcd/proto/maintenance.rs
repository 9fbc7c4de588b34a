//! The messages about the state of one member, and about the alarms of all members.

use super::Header;

/// Requests the state of a member. The member answers without a request to other members.
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
    /// The id of the leader that the member follows; 0 if it has no leader.
    #[prost(uint64, tag = "4")]
    pub(in super::super) leader: u64,
    /// The number of committed log entries, according to this member.
    #[prost(uint64, tag = "5")]
    pub(in super::super) raft_index: u64,
    /// The number of log entries that the member has applied; 0 before etcd 3.4.
    #[prost(uint64, tag = "7")]
    pub(in super::super) raft_applied_index: u64,
    /// The number of bytes of the file that are in use; 0 before etcd 3.4.
    #[prost(int64, tag = "9")]
    pub(in super::super) db_size_in_use: i64,
    /// Whether the member has no vote yet, and does not serve clients.
    #[prost(bool, tag = "10")]
    pub(in super::super) is_learner: bool,
    /// The size of the file at which the alarm is raised. Negative if there is no quota; 0 before etcd 3.6.
    #[prost(int64, tag = "12")]
    pub(in super::super) db_size_quota: i64,
}

/// Requests all alarms. Like a write, this request passes through the log of the cluster, but it changes nothing.
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
    /// [`NOSPACE`](Self::NOSPACE), [`CORRUPT`](Self::CORRUPT), or an alarm of a later version of etcd.
    #[prost(int32, tag = "2")]
    pub(in super::super) alarm: i32,
}

impl AlarmMember {
    /// The database is full.
    pub(in super::super) const NOSPACE: i32 = 1;
    /// The data of the member differ from the data of the other members.
    pub(in super::super) const CORRUPT: i32 = 2;
}
