//! The facts that were read of a cluster.

use crate::backend::etcd::config::Config;
use crate::backend::etcd::proto::{AlarmMember, StatusResponse};

/// The facts that were read of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) list: List,
    pub(super) members: Vec<Member>,
    /// The number of addresses to which the URL leads.
    pub(super) addresses: usize,
    /// `None` if the user may not read them, as for the leases.
    pub(super) alarms: Option<Vec<AlarmMember>>,
    pub(super) leases: Option<usize>,
    pub(super) access: Access,
}

/// Whether all members are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Whole,
    /// A proxy answers in place of the members.
    Proxied,
    /// The user may not read the list.
    Unread,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: u64,
    /// The address at which it answers, or which it announces.
    pub(super) name: String,
    /// The URL that the other members use.
    pub(super) peer: String,
    pub(super) is_learner: bool,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    State(StatusResponse),
    Silent,
    /// The member was added to the cluster, and has never started.
    NotStarted,
    /// The member answers, and does not tell its state to this user.
    Refused,
    /// The address that the member announces does not lead this client to it.
    Elsewhere,
}

/// How this client proves its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Not at all.
    Open,
    /// By its certificate. Whether etcd has users too is not known.
    Certificate,
    Password,
    /// By a password that crosses the network without TLS.
    PlainPassword,
}

impl Access {
    pub(super) fn new(config: &Config) -> Self {
        match (&config.user, &config.tls) {
            (Some(_), Some(_)) => Self::Password,
            (Some(_), None) => Self::PlainPassword,
            (None, Some(files)) if files.certificate.is_some() => Self::Certificate,
            (None, _) => Self::Open,
        }
    }
}

impl Member {
    pub(super) fn state(&self) -> Option<&StatusResponse> {
        match &self.answer {
            Answer::State(state) => Some(state),
            Answer::Silent | Answer::NotStarted | Answer::Refused | Answer::Elsewhere => None,
        }
    }
}

impl Facts {
    /// Returns the members with a vote.
    pub(super) fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_learner)
    }

    /// Returns the states that are known, each with its member.
    pub(super) fn states(&self) -> impl Iterator<Item = (&Member, &StatusResponse)> {
        self.members.iter().filter_map(|member| Some((member, member.state()?)))
    }

    /// Returns the present revision.
    pub(super) fn revision(&self) -> i64 {
        let revisions = self.states().filter_map(|(_, state)| Some(state.header.as_ref()?.revision));
        revisions.max().unwrap_or(0)
    }

    /// Returns the name of a member, or its id in hex, as `etcdctl` writes it.
    pub(super) fn name_of(&self, id: u64) -> String {
        let known = self.members.iter().find(|member| member.id == id);
        known.map_or_else(|| format!("{id:x}"), |member| member.name.clone())
    }
}
