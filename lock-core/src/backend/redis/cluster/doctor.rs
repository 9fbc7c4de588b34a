//! The doctor of a Cluster: it checks each primary.

use tokio::time::timeout;

use super::router::Router;
use crate::backend::redis::doctor::{Facts, Kind, findings, of_all};
use crate::backend::remote::join_all;
use crate::backend::{Finding, Severity};
use crate::error::{LockError, LockErrorKind, Result};

impl Router {
    /// Returns the findings about each node that has slots. An unreachable node is also a finding.
    pub(crate) async fn doctor(&self) -> Result<Vec<Finding>> {
        // Requests the list of nodes again, because a node may have been replaced since the last call.
        let _ = timeout(self.config().timeout, self.look_again()).await;
        let nodes = self.primaries();
        let asked = nodes
            .iter()
            .map(|node| async move { (node.shared().address().to_string(), node.facts(Kind::Node).await) });
        let answers = join_all(asked).await;
        if answers.iter().all(|(_, answer)| answer.is_err()) {
            let reasons: Vec<_> =
                answers.iter().filter_map(|(_, answer)| Some(answer.as_ref().err()?.detail())).collect();
            let address = &self.config().address;
            let detail = format!("no node of the Cluster at {address} answers: {}", reasons.join("; "));
            return Err(LockError::new(LockErrorKind::Unavailable, detail));
        }
        Ok(of_all(answers.into_iter().map(|(name, answer)| (name, of_node(answer)))))
    }
}

fn of_node(answer: Result<Facts>) -> Vec<Finding> {
    match answer {
        Ok(facts) => findings(&facts),
        Err(error) => {
            let found =
                format!("the node does not answer, and its keys cannot be locked: {}", error.detail());
            let advice = "start it; only if it is certainly stopped, `CLUSTER FAILOVER FORCE` on its replica";
            vec![Finding::new(Severity::Danger, "redis.node", found, advice)]
        }
    }
}
