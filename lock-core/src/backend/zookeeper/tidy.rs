//! Deletes the directories that this session has created, each some time after its last use.
//!
//! The servers also delete empty containers, but only once a minute, and only some 10,000 each time. So the directories
//! of keys that are used only once would accumulate. This module deletes the directories as fast as they are created.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_client::Error;

use super::error::is_doubtful;
use super::made::MADE_HERE;
use super::session::Session;
use crate::backend::remote::join_all;

/// The pause between two checks for due directories.
const LOOK: Duration = Duration::from_millis(500);

impl Session {
    /// Deletes the unused directories of this session, in an endless loop.
    pub(super) async fn tidies(&self) {
        loop {
            sleep(LOOK).await;
            loop {
                let due = self.made.due();
                if due.is_empty() {
                    break;
                }
                join_all(due.into_iter().map(|directory| self.delete_unused(directory))).await;
            }
        }
    }

    /// Deletes a directory, or schedules it for later if it is in use. A claim that arrives at this moment finds no
    /// directory and creates it again, as after a deletion by the servers.
    async fn delete_unused(&self, directory: String) {
        let is_used = match self.with(|grants| grants.uses(&directory)) {
            Ok(true) => true,
            // A read costs the servers less than a deletion that they would refuse.
            Ok(false) => match self.client().check_stat(&directory).await {
                Ok(Some(stat)) if usize::try_from(stat.data_length) != Ok(MADE_HERE.len()) => false,
                Ok(Some(stat)) if stat.num_children == 0 => {
                    match self.client().delete(&directory, None).await {
                        Ok(()) => false,
                        Err(error) => error == Error::NotEmpty || is_doubtful(&error),
                    }
                }
                Ok(Some(_)) => true,
                Ok(None) => false,
                Err(error) => is_doubtful(&error),
            },
            // The session is over. The servers delete the directory.
            Err(_) => false,
        };
        if is_used {
            self.made.add(directory);
        }
    }
}
