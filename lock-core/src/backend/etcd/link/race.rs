//! Several attempts of which one has to succeed.

use std::future::poll_fn;
use std::task::Poll;

use crate::backend::BoxFuture;
use crate::backend::etcd::error::Failure;

/// Runs all attempts, and returns the first success. When all have failed: a failure that no other try can fix, if
/// there is one, or else the last.
pub(super) async fn first<T>(attempts: Vec<BoxFuture<'_, Result<T, Failure>>>) -> Option<Result<T, Failure>> {
    let mut attempts: Vec<_> = attempts.into_iter().map(Some).collect();
    let mut worst: Option<Failure> = None;
    poll_fn(|cx| {
        let mut pending = false;
        for slot in &mut attempts {
            let Some(attempt) = slot else { continue };
            match attempt.as_mut().poll(cx) {
                Poll::Ready(Ok(value)) => return Poll::Ready(Some(Ok(value))),
                Poll::Ready(Err(failure)) => {
                    *slot = None;
                    if !worst.as_ref().is_some_and(Failure::is_permanent) {
                        worst = Some(failure);
                    }
                }
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(worst.take().map(Err)) }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::LockErrorKind;

    fn failure(text: &'static str) -> Failure {
        Failure::new(LockErrorKind::Unavailable, text)
    }

    fn after(ms: u64, outcome: Result<u64, Failure>) -> BoxFuture<'static, Result<u64, Failure>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            outcome
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_success_counts_or_else_the_failure_that_lasts() {
        let won = first(vec![after(1, Err(failure("a"))), after(9, Ok(9)), after(5, Ok(5))]).await;
        assert_eq!(won.expect("an outcome").expect("a success"), 5);
        for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
            let [a, b, c] = order;
            let lost = first::<u64>(vec![
                after(a, Err(failure("a"))),
                after(b, Err(failure("lasts").permanent())),
                after(c, Err(failure("c"))),
            ]);
            assert_eq!(lost.await.expect("an outcome").expect_err("none").text(), "lasts");
        }
        assert!(first::<u64>(Vec::new()).await.is_none());
    }
}
