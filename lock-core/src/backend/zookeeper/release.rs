//! Releases a claim.

use zookeeper_client::Error;

use super::error::Failure;
use super::places::Site;
use crate::backend::Released;

impl Site<'_> {
    /// Releases the grant, or removes the claim from the queue. Repeats requests whose answers were lost with the
    /// connection. This function sets no deadline.
    pub(super) async fn release(&self) -> Result<Released, Failure> {
        let mut doubt = false;
        loop {
            match self.release_once(doubt).await {
                Ok(released) => return Ok(released),
                Err(failure) => self.session.recover(failure).await?,
            }
            doubt = true;
        }
    }

    async fn release_once(&self, doubt: bool) -> Result<Released, Failure> {
        let entry = self.entry()?;
        self.session.with(|grants| grants.deletes(&self.prefix, true))?;
        let granted = entry.as_ref().is_some_and(|entry| entry.is_granted());
        if let Some(node) = entry.and_then(|entry| entry.node).filter(|_| !doubt)
            && self.delete(&node).await?
            && granted
        {
            self.session.with(|grants| grants.forget(&self.prefix))?;
            return Ok(Released::Released);
        }
        Ok(self.release_all(granted).await?)
    }

    /// Deletes every node of the owner, including nodes whose creation was never answered, and nodes of an earlier
    /// session.
    async fn release_all(&self, granted: bool) -> Result<Released, Error> {
        let seen = self.look_again().await?;
        let mut held = false;
        for (at, name) in seen.line.nodes_of(&self.mark).enumerate() {
            let deleted = self.delete(name).await?;
            let index = seen.line.place_of(&self.mark).map(|first| first + at);
            held |= deleted && granted && index.is_some_and(|index| index < seen.line.holders().len());
        }
        let _ = self.session.with(|grants| grants.forget(&self.prefix));
        if held {
            return Ok(Released::Released);
        }
        let others = seen.line.holders().iter().any(|place| !place.name.starts_with(&self.mark));
        Ok(if others { Released::Taken } else { Released::Expired })
    }
}
