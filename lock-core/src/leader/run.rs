//! Runs a body while its candidate leads, and runs it again after a loss.

use std::future::Future;

use super::candidate::Run;
use super::election::{AFTER_A_LOSS, GOOD_TERM, LeaderElection};
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::Result;
use crate::guard::LockHandle;
use crate::guard::body::RELEASE_PATIENCE;
#[cfg(doc)]
use crate::options::OnLost;

impl LeaderElection {
    /// Campaigns, runs `body` while this candidate leads, and campaigns again after a loss. So `body` may be called
    /// several times, each time with the handle of a new term. The handle provides the fencing token without a round
    /// trip. The token is larger than every earlier token. The handle also shows whether the leadership is lost.
    ///
    /// When the body ends, the candidate resigns, and this method returns the output of the body. A body that should
    /// lead forever must not end. Returns `None` if the candidate was asked to [`resign`](Self::resign) after the call
    /// of this method.
    ///
    /// When the leadership is lost, the body is dropped at its current await point, before another candidate can lead.
    /// After a [`force_release`](crate::LockManager::force_release), a deletion in the store or a failover, another
    /// candidate may lead before the body is dropped. With [`OnLost::Finish`], the body runs to its end, and its output
    /// is dropped. A nested request for the key inside the body enters the lock of the leader. When the body ends, its
    /// values are dropped before the lock is released.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign). A loss is not an error.
    ///
    /// # Panics
    /// As [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    /// If the future is dropped, the body is dropped first. Then the candidate resigns in the background, or leaves the
    /// queue if it does not lead yet.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let election = locks.leader("scheduler");
    /// let leads = tokio::spawn(election.run(|lease| async move {
    ///     loop {
    ///         let token = lease.fencing_token().await.expect("it leads");
    ///         println!("UPDATE plan SET .., fence = {token} WHERE fence <= {token}");
    ///         tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///     }
    ///     # #[allow(unreachable_code)]
    ///     # ()
    /// }));
    /// // At the end of the process:
    /// election.resign().await;
    /// assert!(leads.await.expect("no panic")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, F, Fut>(&self, body: F) -> impl Future<Output = Result<Option<T>>> + use<T, F, Fut>
    where
        F: FnMut(LockHandle) -> Fut,
        Fut: Future<Output = T>,
    {
        // The run is registered before the first poll. So a call of `resign` also ends a spawned task that has not
        // started.
        let (election, run) = (self.clone(), self.candidate.begin_run());
        async move { election.lead(&run, body).await }
    }

    async fn lead<T, F, Fut>(&self, run: &Run, mut body: F) -> Result<Option<T>>
    where
        F: FnMut(LockHandle) -> Fut,
        Fut: Future<Output = T>,
    {
        let mut pauses = AFTER_A_LOSS;
        loop {
            let leadership = tokio::select! {
                biased;
                () = run.resigned() => return Ok(None),
                won = self.campaign() => won?,
            };
            let began = self.engine().clock.now();
            // The future is boxed, because an async function that receives a future by value reserves the space for it
            // twice.
            let term = Box::pin(body(leadership.handle()));
            let ended = tokio::select! {
                biased;
                ended = leadership.guard().run_on_lost(self.on_lost, term) => Some(ended),
                () = run.resigned() => None,
            };
            let output = match ended {
                Some(Ok(output)) => Some(output),
                Some(Err(error)) if error.is_lost() => {
                    drop(leadership);
                    if self.engine().clock.now().since(began) >= GOOD_TERM {
                        pauses.reset();
                        continue;
                    }
                    tokio::select! {
                        biased;
                        () = run.resigned() => return Ok(None),
                        paused = self.pause(&mut pauses) => paused?,
                    }
                    continue;
                }
                Some(Err(error)) => return Err(error),
                None => None,
            };
            leadership.resign_within(RELEASE_PATIENCE).await;
            return Ok(output);
        }
    }
}
