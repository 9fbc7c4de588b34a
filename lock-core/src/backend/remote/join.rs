//! Runs several futures concurrently in one task.

use std::future::poll_fn;
use std::task::Poll;

use crate::backend::BoxFuture;

/// Runs all futures concurrently. Returns their outputs in the order of the list.
///
/// Each wake-up polls every pending future, which is efficient only for a few futures.
pub(crate) async fn join_all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (future, None)).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[tokio::test(start_paused = true)]
    async fn futures_run_at_once_and_answer_in_order() {
        let start = Clock::Tokio.now();
        let after = |ms: u64| -> BoxFuture<'static, u64> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                ms
            })
        };
        assert_eq!(join_all(vec![after(30), after(10), after(0)]).await, [30, 10, 0]);
        assert_eq!(Clock::Tokio.now().since(start), Duration::from_millis(30));
        assert!(join_all::<()>(Vec::new()).await.is_empty());
    }
}
