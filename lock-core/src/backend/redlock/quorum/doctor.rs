//! The doctor of a quorum, which checks each node and the number of nodes.

use super::backend::Inner;
use super::votes::majority;
use crate::backend::redis::doctor::of_all;
use crate::backend::remote::join_all;
use crate::backend::{Backend, Finding, Severity};
use crate::error::{LockError, LockErrorKind, Result};

impl<B: Backend> Inner<B> {
    /// Returns the findings about each node. An unreachable node is also a finding.
    pub(super) async fn doctor(&self) -> Result<Vec<Finding>> {
        let asked =
            self.nodes.iter().map(|node| async { (node.name().to_owned(), node.backend.doctor().await) });
        let answers = join_all(asked).await;
        if answers.iter().any(|(_, answer)| answer.is_ok()) {
            return Ok(of_nodes(answers));
        }
        Err(self.no_majority("answer", answers.into_iter().map(|(_, answer)| Some(answer))))
    }
}

/// Returns the findings about the nodes. Each answer comes with the name of its node.
fn of_nodes(answers: Vec<(String, Result<Vec<Finding>>)>) -> Vec<Finding> {
    let all = answers.len();
    let need = majority(all);
    let up = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    let alone = (all == 1).then(|| {
        let found = "the quorum has one node: the loss of it is the loss of all locks";
        let advice = "name three servers, or a larger odd number, that share nothing";
        Finding::new(Severity::Warning, "redlock.one_node", found, advice)
    });
    let each = answers.into_iter().map(|(name, answer)| {
        let findings = answer.unwrap_or_else(|error| vec![failed(&error, (up, all, need))]);
        (name, findings)
    });
    alone.into_iter().chain(of_all(each)).collect()
}

fn failed(error: &LockError, (up, all, need): (usize, usize, usize)) -> Finding {
    if error.kind() == LockErrorKind::Unsupported {
        let advice = "write `Backend::doctor` for the store of this node";
        return Finding::new(Severity::Note, "redlock.unread", error.detail(), advice);
    }
    let found =
        format!("the node does not answer, {up} of {all} do and a lock needs {need}: {}", error.detail());
    let advice = "start the server of this node, or do what the text says; it votes again by itself";
    Finding::new(Severity::Danger, "redlock.node", found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_nodes_are_named_and_equal_ones_are_one() {
        let finding = |found: &str| Finding::new(Severity::Note, "a.b", found, "do");
        let fails = |kind| Err(LockError::new(kind, "why"));
        let answers = vec![
            ("n1".to_owned(), Ok(vec![finding("same"), finding("other")])),
            ("n2".to_owned(), Ok(vec![finding("same").about("x")])),
            ("n3".to_owned(), fails(LockErrorKind::Unavailable)),
            ("n4".to_owned(), fails(LockErrorKind::Unsupported)),
            ("n5".to_owned(), Ok(Vec::new())),
        ];
        let found = of_nodes(answers);
        let shown: Vec<_> = found.iter().map(|one| (one.rule, one.severity, one.about.as_str())).collect();
        let expected = [
            ("a.b", Severity::Note, "n1, n2: x"),
            ("a.b", Severity::Note, "n1"),
            ("redlock.node", Severity::Danger, "n3"),
            ("redlock.unread", Severity::Note, "n4"),
        ];
        assert_eq!(shown, expected);
        assert!(found[2].found.contains("3 of 5 do and a lock needs 3: why"), "{}", found[2].found);
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_is_no_majority_of_several() {
        use crate::backend::memory::Memory;
        use crate::backend::redlock::quorum::Quorum;

        for (nodes, alone) in [(1, true), (3, false)] {
            let quorum = Quorum::new((0..nodes).map(|_| Memory::new()).collect()).expect("odd");
            let found = quorum.doctor().await.expect("an answer");
            assert_eq!(found.iter().any(|one| one.rule == "redlock.one_node"), alone, "{found:?}");
        }
    }
}
