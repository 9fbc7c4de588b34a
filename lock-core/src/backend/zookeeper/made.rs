//! The directories that a session has made, and when each is due to be deleted.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::sync::Mutex;

/// How long a directory is kept after it was made, or was seen in use. A key that is used more often costs at most one
/// more creation in this time.
const STAYS: Duration = Duration::from_secs(10);

/// How many are deleted at once.
const AT_ONCE: usize = 512;

/// The data of a directory that is made here. It distinguishes the directory from a node of another program, which no
/// server deletes.
pub(super) const MADE_HERE: &[u8] = b"lock";

/// Directories, with the moment at which each is due, in this order.
#[derive(Debug, Default)]
pub(super) struct Made(Mutex<VecDeque<(Moment, String)>>);

impl Made {
    /// Notes that a directory is in use now, or is about to be made.
    pub(super) fn add(&self, directory: String) {
        self.0.lock().push_back((Clock::Suspend.now().plus(STAYS), directory));
    }

    /// Takes some of the due directories.
    pub(super) fn due(&self) -> Vec<String> {
        let (mut all, now) = (self.0.lock(), Clock::Suspend.now());
        let due = all.iter().take(AT_ONCE).take_while(|(due, _)| due.is_past(now)).count();
        let due = all.drain(..due).map(|(_, directory)| directory).collect();
        let most = AT_ONCE.max(all.len() * 2);
        all.shrink_to(most);
        due
    }
}
