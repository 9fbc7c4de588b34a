//! Runs several futures concurrently in one task.

use std::future::{Future, poll_fn};
use std::task::Poll;

use crate::backend::BoxFuture;

/// Runs all futures concurrently. Returns their outputs in the order of the list.
///
/// Each wake-up polls every pending future, which is efficient only for a few futures.
pub(crate) fn join_all<'a, T>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>,
) -> impl Future<Output = Vec<T>> {
    let boxed = |future| -> BoxFuture<'a, T> { Box::pin(future) };
    // The boxes are made here and not in the future, whose callers would otherwise lose `Send`.
    let mut futures: Vec<_> = futures.into_iter().map(|future| (boxed(future), None)).collect();
    async move {
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[tokio::test(start_paused = true)]
    async fn futures_run_at_once_and_answer_in_order() {
        let start = Clock::Tokio.now();
        let after = async |ms: u64| {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            ms
        };
        assert_eq!(join_all([after(30), after(10), after(0)]).await, [30, 10, 0]);
        assert_eq!(Clock::Tokio.now().since(start), Duration::from_millis(30));
        assert!(join_all(std::iter::empty::<std::future::Ready<()>>()).await.is_empty());
    }
}
