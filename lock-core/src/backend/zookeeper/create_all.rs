//! Creates the nodes of a claim of several keys in one transaction.

use zookeeper_client::{CreateMode, Error, MultiWriteResult};

use super::acquire_all::Surveyed;
use super::claim_sites::ClaimSites;
use super::error::{Failure, is_refusal, source};
use super::places::{Seen, Site, TRIES};
use super::record::record;

/// The nodes that a transaction has created, and the queues after it.
struct Made {
    /// The name and the number of each node.
    nodes: Vec<(String, i64)>,
    lines: Vec<Result<Seen, Error>>,
}

impl ClaimSites<'_> {
    /// Creates the missing nodes of the claim in one transaction, and then reads all queues. This needs one round trip.
    /// Returns the transaction number if the claim had no node before.
    pub(super) async fn create_missing(&self, surveyed: &mut [Surveyed]) -> Result<Option<i64>, Failure> {
        let lacks: Vec<bool> = surveyed.iter().map(|line| line.own.is_none()).collect();
        let missing: Vec<&Site<'_>> =
            self.sites.iter().zip(&lacks).filter(|(_, lacks)| **lacks).map(|(site, _)| site).collect();
        self.session.with(|grants| {
            missing.iter().for_each(|site| grants.begin(&site.prefix, self.claim));
        })?;
        self.claim.mark_sent();
        let made = match self.create(&missing).await {
            Ok(made) => made,
            Err(error) => {
                if is_refusal(&error) {
                    self.session
                        .with(|grants| missing.iter().for_each(|site| grants.forget(&site.prefix)))?;
                }
                return Err(error.into());
            }
        };
        let mut nodes = made.nodes.into_iter();
        let (mut numbers, has_all) = (Vec::new(), missing.len() == surveyed.len());
        for ((line, site), lacks) in surveyed.iter_mut().zip(&self.sites).zip(lacks) {
            if let Some((node, number)) = lacks.then(|| nodes.next()).flatten() {
                self.session.with(|grants| grants.has_node(&site.prefix, &node))?;
                line.own = Some(node);
                numbers.push(number);
            }
        }
        for (line, looked) in surveyed.iter_mut().zip(made.lines) {
            line.seen = looked?;
        }
        Ok(numbers.first().copied().filter(|_| has_all))
    }

    async fn create(&self, missing: &[&Site<'_>]) -> Result<Made, Error> {
        let data = record(self.claim);
        for _ in 0..TRIES {
            let mut creates = self.session.client().new_multi_writer();
            for site in missing {
                let options = site.config.node(CreateMode::EphemeralSequential);
                creates.add_create(&site.path(&site.node_prefix()), data.as_bytes(), &options)?;
            }
            let looking = self.each(|site| site.look());
            match tokio::join!(creates.commit(), looking) {
                (Ok(results), lines) => {
                    let nodes = results.into_iter().filter_map(|result| match result {
                        MultiWriteResult::Create { path, stat } => {
                            Some((path.rsplit('/').next()?.to_owned(), stat.czxid))
                        }
                        _ => None,
                    });
                    return Ok(Made { nodes: nodes.collect(), lines });
                }
                (Err(error), _) => match source(error) {
                    // A directory is missing: the servers delete a container some time after its last node was deleted.
                    Error::NoNode => self.make_directories().await?,
                    error => return Err(error),
                },
            }
        }
        Err(Error::NoNode)
    }

    async fn make_directories(&self) -> Result<(), Error> {
        for made in self.each(|site| site.make_directory()).await {
            made?;
        }
        Ok(())
    }
}
