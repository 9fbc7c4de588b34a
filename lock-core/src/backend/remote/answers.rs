//! Counts the answers of a server, to distinguish a slow server from a dead server.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;

/// The number of answers of a server over one connection.
#[derive(Debug, Default)]
pub(crate) struct Answers(AtomicU64);

impl Answers {
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Awaits `answer` as long as the server answers any request within each `limit`. Returns `None` when a whole
    /// `limit` has passed without an answer to any request.
    pub(crate) async fn patiently<T>(&self, limit: Duration, answer: impl Future<Output = T>) -> Option<T> {
        let mut answer = pin!(answer);
        loop {
            let before = self.0.load(Ordering::Relaxed);
            // The limit is split into two halves. If a pause of this process uses up the first half, the answer still
            // has the second half to arrive.
            for _ in 0..2 {
                if let Ok(answer) = timeout(limit / 2, answer.as_mut()).await {
                    return Some(answer);
                }
            }
            if self.0.load(Ordering::Relaxed) == before {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    /// Waits 3.5 limits for an answer to one request, while the server answers another request at each interval
    /// `every`.
    async fn waits(every: Duration) -> Option<()> {
        let answers = Answers::default();
        let others = async {
            loop {
                sleep(every).await;
                answers.note();
            }
        };
        tokio::select! {
            waited = answers.patiently(LIMIT, sleep(LIMIT * 7 / 2)) => waited,
            () = others => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_others_is_late_and_not_dead() {
        assert_eq!(waits(LIMIT * 3 / 4).await, Some(()));
        assert_eq!(waits(LIMIT * 3).await, None);
    }
}
