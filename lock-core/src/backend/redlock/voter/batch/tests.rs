//! Batches over a link that records what leaves.

use std::pin::{Pin, pin};

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// Records the requests that leave, by script call.
#[derive(Debug, Default)]
struct Recorder {
    calls: Mutex<Vec<Vec<u32>>>,
    ends: Mutex<Vec<Moment>>,
}

impl Recorder {
    fn calls(&self) -> Vec<Vec<u32>> {
        self.calls.lock().clone()
    }
}

/// Answered with its own number; 7 must be sent alone, and 8 makes the server refuse all.
#[derive(Debug)]
struct Number<const OUTLIVES_CALLER: bool>(u32);

impl<const OUTLIVES_CALLER: bool> Request<Recorder> for Number<OUTLIVES_CALLER> {
    type Answer = u32;

    const OUTLIVES_CALLER: bool = OUTLIVES_CALLER;

    async fn send(requests: &[Self], link: &Recorder, end: Moment) -> Result<Vec<Option<u32>>, Failure> {
        link.calls.lock().push(requests.iter().map(|one| one.0).collect());
        link.ends.lock().push(end);
        tokio::task::yield_now().await;
        if requests.iter().any(|one| one.0 == 8) {
            return Err(Failure::new(LockErrorKind::InvalidRequest, "no"));
        }
        Ok(requests.iter().map(|one| Some(one.0).filter(|number| *number != 7)).collect())
    }
}

type Claim = Number<false>;
type Release = Number<true>;

#[derive(Debug, Default)]
struct Line<R>(Batches<R, u32>, Arc<Recorder>);

impl<R: Request<Recorder, Answer = u32>> Line<R> {
    fn new() -> Self {
        Self(Batches::default(), Arc::default())
    }

    async fn send(&self, request: R, span: Duration) -> Outcome<u32> {
        self.0.send(&self.1, &Handle::current(), request, span).await
    }
}

/// Polls a future once. Returns whether it is pending.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Lets every task run that is ready.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_tasks_of_one_round_send_leaves_as_one() {
    for (tasks, calls) in
        [(1, vec![1]), (2, vec![2]), (16, vec![16]), (20, vec![16, 4]), (33, vec![16, 16, 1])]
    {
        let line = Arc::new(Line::<Claim>::new());
        let sending = (0..tasks).map(|number| {
            let line = Arc::clone(&line);
            tokio::spawn(async move { line.send(Number(number + 100), HOUR).await })
        });
        for (number, task) in (0..).zip(sending.collect::<Vec<_>>()) {
            let outcome = task.await.expect("no panic");
            assert!(matches!(outcome, Outcome::Answered(answer) if answer == number + 100), "{outcome:?}");
        }
        let sizes: Vec<usize> = line.1.calls().iter().map(Vec::len).collect();
        assert_eq!(sizes, calls, "{tasks} tasks");
    }
}

#[tokio::test(start_paused = true)]
async fn each_gets_its_own_outcome() {
    for (others, calls) in [([1, 7, 3], 1), ([1, 8, 3], 1)] {
        let line = Line::<Claim>::new();
        let [a, b, c] = others.map(|number| line.send(Number(number), HOUR));
        let outcomes = tokio::join!(a, b, c);
        match (others[1], outcomes) {
            (7, (Outcome::Answered(1), Outcome::Alone(_), Outcome::Answered(3))) => {}
            (8, (Outcome::Alone(_), Outcome::Alone(_), Outcome::Alone(_))) => {}
            (_, outcomes) => panic!("{outcomes:?}"),
        }
        assert_eq!(line.1.calls().len(), calls);
    }
}

/// For example in a `select!` whose other branch goes on and asks for another lock.
#[tokio::test(start_paused = true)]
async fn a_caller_that_is_not_polled_any_more_holds_up_nobody() {
    let line = Line::<Claim>::new();
    let mut first = pin!(line.send(Number(1), HOUR));
    assert!(is_pending(first.as_mut()).await);
    let second = tokio::time::timeout(Duration::from_nanos(1), line.send(Number(2), HOUR)).await;
    assert!(matches!(second, Ok(Outcome::Answered(2))), "{second:?}");
    assert_eq!(line.1.calls(), [[1, 2]], "both were asked for");
    let first = tokio::time::timeout(Duration::from_nanos(1), first).await;
    assert!(matches!(first, Ok(Outcome::Answered(1))), "{first:?}");
}

/// It would give them its own end, which is near.
#[tokio::test]
async fn nobody_joins_a_caller_that_has_not_been_polled_for_long() {
    let (line, span) = (Line::<Claim>::new(), Duration::from_millis(800));
    let mut first = pin!(line.send(Number(1), span));
    assert!(is_pending(first.as_mut()).await);
    // More than an eighth of its time. Nothing could be awaited: the first caller stands still.
    tokio::time::sleep(Duration::from_millis(101)).await;
    let now = Clock::Suspend.now();
    assert!(matches!(line.send(Number(2), span).await, Outcome::Answered(2)));
    assert!(matches!(first.await, Outcome::Answered(1)));
    let calls = line.1.calls();
    let second = calls.iter().position(|call| *call == [2]).expect("alone");
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(line.1.ends.lock()[second].remaining(now) >= span, "it has its whole time");
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_another_deadline_opens_another_batch() {
    let line = Line::<Claim>::new();
    let outcomes =
        tokio::join!(line.send(Number(1), HOUR), line.send(Number(2), HOUR), line.send(Number(3), HOUR * 2));
    assert!(matches!(outcomes, (Outcome::Answered(1), Outcome::Answered(2), Outcome::Answered(3))));
    assert_eq!(line.1.calls().len(), 2, "{:?}", line.1.calls());
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_gone_with_its_caller_and_a_release_is_not() {
    // Which of them is dropped, whether the others are still there, and what leaves.
    let (claims, releases) = (Line::<Claim>::new(), Line::<Release>::new());
    for others in [vec![], vec![2], vec![2, 3]] {
        let all = |number| [vec![number], others.clone()].concat();
        let (mut claim, mut release) =
            (Box::pin(claims.send(Number(1), HOUR)), Box::pin(releases.send(Number(1), HOUR)));
        assert!(is_pending(claim.as_mut()).await && is_pending(release.as_mut()).await);
        let mut waiting = Vec::new();
        for number in &others {
            let mut claim = Box::pin(claims.send(Number(*number), HOUR));
            let mut release = Box::pin(releases.send(Number(*number), HOUR));
            assert!(is_pending(claim.as_mut()).await && is_pending(release.as_mut()).await);
            waiting.push((claim, release));
        }
        drop((claim, release));
        settle().await;
        let left = |line: Vec<Vec<u32>>| line.concat();
        assert_eq!(left(claims.1.calls()), others, "nobody waits for the first claim");
        assert_eq!(left(releases.1.calls()), all(1), "the lock must not stay");
        for (number, (claim, release)) in others.iter().zip(waiting) {
            assert!(matches!(claim.await, Outcome::Answered(answer) if answer == *number));
            assert!(matches!(release.await, Outcome::Answered(answer) if answer == *number));
        }
        claims.1.calls.lock().clear();
        releases.1.calls.lock().clear();
    }
}

#[test]
fn nobody_waits_for_a_runtime_that_has_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (ended, line) = (runtime.handle().clone(), Line::<Claim>::new());
    drop(runtime);
    let own = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let send = |number| line.0.send(&line.1, &ended, Number(number), HOUR);
    let (_, second, third) = own.block_on(async {
        let mut first = Box::pin(send(1));
        assert!(is_pending(first.as_mut()).await);
        let patience = Duration::from_secs(10);
        let [second, third] = [2, 3].map(|number| tokio::time::timeout(patience, send(number)));
        (first, second.await.expect("an answer"), third.await.expect("an answer"))
    });
    assert!(matches!(second, Outcome::Failed(failure) if failure.is_in_doubt()));
    assert!(matches!(third, Outcome::Answered(3)), "alone, it needs no task: {third:?}");
}
