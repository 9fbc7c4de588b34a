//! Opens the first connection of a store. The dial is retried until it succeeds, or until its time is over.

use std::fmt;
use std::time::Duration;

use tokio::time::sleep;

use super::Failure;
use crate::backend::BoxFuture;
use crate::backoff::Pauses;
use crate::clock::Clock;

/// The default limit of a first connection. A server that was started a moment ago, or that has only a fraction of a
/// CPU core, answers within this time.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The pauses between two tries.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(50), Duration::from_millis(500));

/// The last try begins when the limit divided by this number is left. A shorter try would only replace the last failure
/// by a less useful failure.
const LAST_TRY: u32 = 20;

/// Calls `dial` until it succeeds, until its failure [is settled](Failure::is_settled), or until `limit` is over. The
/// argument of `dial` is the time that is left.
pub(crate) async fn connect<'a, T, R: fmt::Debug>(
    server: &(dyn fmt::Display + Sync),
    limit: Duration,
    mut dial: impl FnMut(Duration) -> BoxFuture<'a, Result<T, Failure<R>>>,
) -> Result<T, Failure<R>> {
    let (give_up, mut pauses, mut tries) = (Clock::Suspend.now().plus(limit), PAUSES, 0_u32);
    let mut left = limit;
    loop {
        tries += 1;
        let failure = match dial(left).await {
            Err(failure) if !failure.is_settled() => failure,
            answer => return answer,
        };
        // The pause has jitter, so that the processes of a service do not all dial a server at the same instant.
        let pause = pauses.next().mul_f64(0.5 + fastrand::f64() / 2.0);
        let rest = give_up.remaining(Clock::Suspend.now());
        let longest = rest.saturating_sub(limit / LAST_TRY);
        if longest.is_zero() {
            return Err(if tries > 1 { failure.after(tries, limit) } else { failure });
        }
        let pause = pause.min(longest);
        left = rest.saturating_sub(pause);
        if tries == 1 {
            tracing::info!(%server, ?failure, within = ?limit, "no connection yet; the library tries again");
        }
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::error::LockErrorKind;

    const LIMIT: Duration = Duration::from_millis(300);

    fn refused() -> Failure<()> {
        Failure::new(LockErrorKind::Unavailable, "refused")
    }

    #[tokio::test]
    async fn a_server_that_is_late_is_tried_again() {
        let (mut tries, limit) = (0, Duration::from_secs(60));
        let connected = connect(&"h:1", limit, |left| {
            tries += 1;
            assert!(left <= limit && !left.is_zero(), "{left:?}");
            Box::pin(ready(if tries < 3 { Err(refused()) } else { Ok(tries) }))
        });
        assert_eq!(connected.await.expect("the third try succeeds"), 3);
    }

    #[tokio::test]
    async fn the_tries_end_with_their_time_and_the_error_counts_them() {
        let (mut tries, began) = (0, Clock::Suspend.now());
        let mut last = Duration::ZERO;
        let failed = connect::<(), _>(&"h:1", LIMIT, |_| {
            tries += 1;
            last = Clock::Suspend.now().since(began);
            Box::pin(ready(Err(refused())))
        });
        let text = failed.await.expect_err("it is never there").text().to_owned();
        assert!(tries > 1, "{tries}");
        assert!(last >= LIMIT * 9 / 10, "a server that was started after {last:?} was not tried");
        assert_eq!(text, format!("refused (tried {tries} times within {LIMIT:?})"));
    }

    #[tokio::test]
    async fn what_does_not_pass_by_itself_is_told_at_once() {
        for failure in [refused().permanent(), refused().settled()] {
            let mut tries = 0;
            let failed = connect::<(), _>(&"h:1", LIMIT, |_| {
                tries += 1;
                Box::pin(ready(Err(failure.clone())))
            });
            assert_eq!(failed.await.expect_err("it is told").text(), "refused");
            assert_eq!(tries, 1);
        }
    }
}
