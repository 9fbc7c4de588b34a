//! Finds the problems of a cluster's setup that endanger locks. This module reads the [`facts`], and the [`rules`]
//! derive findings from them.

mod cluster;
mod facts;
mod members;
mod rules;
#[cfg(test)]
mod tests;

use self::facts::Facts;
use super::error::{Failure, Reaction};
use super::proto::{
    AlarmRequest, AlarmResponse, LeaseLeasesRequest, LeaseLeasesResponse, MemberListRequest,
    MemberListResponse,
};
use super::store::Store;
use crate::backend::Finding;

impl Store {
    /// Returns the findings about the cluster. Each step has the time limit of a call.
    pub(super) async fn doctor(&self) -> Result<Vec<Finding>, Failure> {
        Ok(rules::findings(&self.facts().await?))
    }

    async fn facts(&self) -> Result<Facts, Failure> {
        let limit = self.timeout();
        let asked = async {
            let (alarms, list, leases) = tokio::join!(
                self.call::<_, AlarmResponse>("/etcdserverpb.Maintenance/Alarm", AlarmRequest {}),
                self.call::<_, MemberListResponse>("/etcdserverpb.Cluster/MemberList", MemberListRequest {}),
                self.call::<_, LeaseLeasesResponse>("/etcdserverpb.Lease/LeaseLeases", LeaseLeasesRequest {}),
            );
            Ok::<_, Failure>((readable(alarms)?, readable(list)?, readable(leases)?))
        };
        let (alarms, list, leases) = self.connections.within(limit, asked).await?;
        let servers = self.connections.connector();
        let (list, members, addresses) = members::ask(servers, list.map(|list| list.members), limit).await;
        Ok(Facts {
            list,
            members,
            addresses,
            alarms: alarms.map(|answer| answer.alarms),
            leases: leases.map(|answer| answer.leases.len()),
            config: servers.config.clone(),
        })
    }
}

/// Returns the answer, or `None` if the user may not read it.
fn readable<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Err(failure) if failure.reaction == Reaction::Forbidden => Ok(None),
        answer => answer.map(Some),
    }
}
