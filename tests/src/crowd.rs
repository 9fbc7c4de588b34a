//! Many tasks that wait for one key.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::LockRequest;
use tokio::task::JoinSet;

/// The waiting tasks, and the numbers of the served tasks in their order.
#[derive(Debug, Default)]
pub struct Crowd {
    tasks: JoinSet<()>,
    served: Arc<Mutex<Vec<usize>>>,
}

impl Crowd {
    /// Adds a task that acquires the lock, and releases it at once.
    pub fn add(&mut self, number: usize, request: LockRequest) {
        let served = Arc::clone(&self.served);
        self.tasks.spawn(async move {
            let guard = request.acquire().await.expect("its turn comes");
            // This comes before the release, for which the next task waits.
            served.lock().expect("no panic").push(number);
            guard.release().await.expect("an answer");
        });
    }

    /// Waits until all tasks were served, and returns their order.
    ///
    /// # Panics
    /// When the wait takes longer than `limit`, or a task fails.
    pub async fn all_served(mut self, limit: Duration) -> Vec<usize> {
        let all = self.tasks.len();
        let ends = async {
            while let Some(task) = self.tasks.join_next().await {
                task.expect("each is served");
            }
        };
        let in_time = tokio::time::timeout(limit, ends).await.is_ok();
        let served = std::mem::take(&mut *self.served.lock().expect("no panic"));
        assert!(in_time && served.len() == all, "{} of {all} were served", served.len());
        served
    }
}
