//! Whether this is the process that made the manager, or a forked child of it.

use forkguard::atfork::Guard;

use crate::owner::Identity;

/// Tells the process of a manager from its forked children, which have its memory, but not its threads and not its
/// locks.
///
/// Every step of a lock asks, and a system call for the process id would be a seventh of the time that a hand-off takes
/// on an idle core. So a handler counts the forks, in the child, before `fork` returns there (`pthread_atfork`, POSIX).
/// No handler runs for `_Fork`, `vfork`, `clone` and system calls: their children count as the process itself.
#[derive(Debug, Clone)]
pub(crate) struct OwnProcess {
    identity: &'static Identity,
    /// How many forks there were when the manager was made. `None` where the system has no memory for the handler, and in
    /// a test with the identity of another process: then the process id decides.
    forks: Option<Guard>,
}

impl OwnProcess {
    pub(crate) fn new(identity: &'static Identity) -> Self {
        let forks = Guard::try_new().ok().filter(|_| identity.is_this_process());
        Self { identity, forks }
    }

    /// Returns whether this is the process that made the manager.
    pub(crate) fn is_here(&self) -> bool {
        match &self.forks {
            // A guard tells of a fork once, and each copy of it by itself.
            Some(forks) => !forks.clone().detected_fork(),
            None => self.identity.is_this_process(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_made_a_manager_is_told_by_the_count() {
        // What a child of it says is tested with one, in `tests/redis_process/ends.rs`.
        let own = OwnProcess::new(Identity::of_this_process("").kept());
        assert!(own.forks.is_some() && own.is_here() && own.is_here());
        assert!(OwnProcess::new(Identity::of_another_process().kept()).forks.is_none());
    }

    #[test]
    fn the_process_id_decides_where_no_handler_counts_forks() {
        let uncounted = |identity: Identity| OwnProcess { identity: identity.kept(), forks: None };
        assert!(uncounted(Identity::of_this_process("")).is_here());
        assert!(!uncounted(Identity::of_another_process()).is_here());
    }
}
