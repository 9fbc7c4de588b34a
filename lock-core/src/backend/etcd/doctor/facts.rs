//! Defines the facts that the rules check.

use crate::backend::etcd::config::Config;
use crate::backend::etcd::proto::{AlarmMember, StatusResponse};

/// The facts about a cluster, as they were read from it.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) list: List,
    pub(super) members: Vec<Member>,
    /// The number of addresses to which the URL leads.
    pub(super) addresses: usize,
    /// The alarms; `None` if the user may not read them.
    pub(super) alarms: Option<Vec<AlarmMember>>,
    pub(super) leases: Option<usize>,
    pub(super) config: Config,
}

/// Whether the list of the members is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Whole,
    /// A proxy answers in place of the members.
    Proxied,
    Unread,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: u64,
    /// The address at which the member answers, or the address that it announces.
    pub(super) name: String,
    /// The URL at which the other members reach this one.
    pub(super) peer: String,
    pub(super) is_learner: bool,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    State(StatusResponse),
    Silent,
    /// The member was added to the cluster, but has never started.
    NotStarted,
    /// The member answers, but this user may not read its state.
    Refused,
    /// The announced address of the member does not lead this client to this member.
    Elsewhere,
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
    pub(super) fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_learner)
    }

    /// Returns the states that are known, each with its member.
    pub(super) fn states(&self) -> impl Iterator<Item = (&Member, &StatusResponse)> {
        self.members.iter().filter_map(|member| Some((member, member.state()?)))
    }

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
