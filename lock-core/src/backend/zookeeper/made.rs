//! Records the directories that a session has created, and the time at which each is due to be deleted.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::sync::Mutex;

/// The time for which a directory is kept after it was created, or was last found in use. A key that is used again and
/// again costs at most one creation of its directory in this time.
const STAYS: Duration = Duration::from_secs(10);

/// The number of directories that are deleted at once.
const AT_ONCE: usize = 512;

/// The data of a directory that this library creates. This data distinguishes such a directory from a node of another
/// program, which the servers do not delete on their own.
pub(super) const MADE_HERE: &[u8] = b"lock";

/// The created directories, each with the time at which it is due to be deleted, in the order of these times.
#[derive(Debug, Default)]
pub(super) struct Made(Mutex<VecDeque<(Moment, String)>>);

impl Made {
    /// Records that a directory is in use now, or is about to be created.
    pub(super) fn add(&self, directory: String) {
        self.0.lock().push_back((Clock::Suspend.now().plus(STAYS), directory));
    }

    /// Removes and returns some of the due directories.
    pub(super) fn due(&self) -> Vec<String> {
        let (mut all, now) = (self.0.lock(), Clock::Suspend.now());
        let due = all.iter().take(AT_ONCE).take_while(|(due, _)| due.is_past(now)).count();
        let due = all.drain(..due).map(|(_, directory)| directory).collect();
        let most = AT_ONCE.max(all.len() * 2);
        all.shrink_to(most);
        due
    }
}
