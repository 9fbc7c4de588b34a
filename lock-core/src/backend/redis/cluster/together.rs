//! Several futures at once, in one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// A future of a list.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs all of them; the answers are in their order. For a handful: each wake-up polls all that are not done.
pub(super) async fn all<T>(futures: Vec<Boxed<'_, T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (future, None)).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for (future, answer) in &mut futures {
            if answer.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(ready) => *answer = Some(ready),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    futures.into_iter().filter_map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[tokio::test(start_paused = true)]
    async fn they_run_at_once_and_answer_in_order() {
        let start = Clock::Tokio.now();
        let after = |ms: u64| -> Boxed<'static, u64> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                ms
            })
        };
        assert_eq!(all(vec![after(30), after(10), after(0)]).await, [30, 10, 0]);
        assert_eq!(Clock::Tokio.now().since(start), Duration::from_millis(30));
        assert!(all::<()>(Vec::new()).await.is_empty());
    }
}
