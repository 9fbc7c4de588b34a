//! Turns a writer into a reader.

use zookeeper_client::{CreateMode, Error};

use super::error::{Failure, source};
use super::names;
use super::places::Site;
use crate::backend::Mode;

impl Site<'_> {
    /// Replaces the node of the claim with a reader's node of the same sequence number, in one transaction. So the
    /// claim keeps its place, and the key is not free in between. Returns whether the claim still has its grant.
    pub(super) async fn downgrade(&self) -> Result<bool, Failure> {
        self.session.with(|grants| grants.deletes(&self.prefix, true))?;
        let is_reader = self.become_reader().await?;
        // A failure skips this line, because after a failure the deletion of the old node may still be reported.
        self.session.with(|grants| grants.deletes(&self.prefix, false))?;
        Ok(is_reader)
    }

    async fn become_reader(&self) -> Result<bool, Failure> {
        loop {
            let entry = self.entry()?;
            let Some(node) = entry.filter(|entry| entry.is_granted()).and_then(|entry| entry.node) else {
                return Ok(false);
            };
            if matches!(names::place(&node), Some((Mode::Shared, _))) {
                return Ok(true);
            }
            let Some(reader) = names::as_reader(&self.mark, &node) else { return Ok(false) };
            let error = match self.rename(&node, &reader).await {
                Ok(()) => {
                    self.session.with(|grants| {
                        grants.has_node(&self.prefix, &reader);
                        grants.told(&self.prefix, &reader);
                    })?;
                    return Ok(true);
                }
                Err(error) => error,
            };
            if error != Error::NoNode {
                self.session.recover(error.into()).await?;
            }
            // An earlier request whose answer was lost may have succeeded.
            match self.look_for_own(None, false).await {
                Ok((_, Some(node))) => self.session.with(|grants| grants.has_node(&self.prefix, &node))?,
                Ok((_, None)) => return Ok(false),
                Err(error) => self.session.recover(error.into()).await?,
            }
        }
    }

    async fn rename(&self, node: &str, reader: &str) -> Result<(), Error> {
        let mut both = self.session.client().new_multi_writer();
        both.add_delete(&self.path(node), None)?;
        both.add_create(
            &self.path(reader),
            self.data().as_bytes(),
            &self.config.node(CreateMode::Ephemeral),
        )?;
        both.commit().await.map(drop).map_err(source)
    }
}
