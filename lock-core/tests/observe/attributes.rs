//! Tests that the manager knows the attributes of the program before their functions are called.

use lock_core::{LockError, LockManager, distributed_lock};

use crate::recorder::Memory;

/// No code calls these functions.
#[allow(dead_code)]
mod uncalled {
    use super::*;

    #[distributed_lock(key = "uncalled:<id>")]
    async fn one(id: u64) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(keys = ["uncalled a:<id>", "uncalled b:<id>"])]
    async fn several(id: u64) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "uncalled elsewhere", manager = locks)]
    async fn elsewhere(locks: LockManager) -> Result<(), LockError> {
        Ok(())
    }
}

#[test]
fn an_installed_manager_shows_the_templates_of_all_attributes() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let seen = |template: &str| {
        let name =
            format!("lock.client.acquire.attempts{{backend=memory,result=acquired,template={template}}}");
        recorder.seen(&name).map(|seen| seen.total)
    };
    assert_eq!(seen("uncalled:<id>"), None);
    locks.install().unwrap();
    for template in ["uncalled:<id>", "uncalled a:<id>, uncalled b:<id>"] {
        assert_eq!(seen(template), Some(0.0), "{template}");
    }
    assert_eq!(seen("uncalled elsewhere"), None, "it is locked by another manager");
}
