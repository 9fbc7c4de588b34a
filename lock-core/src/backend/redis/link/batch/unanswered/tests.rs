use super::*;
use crate::key::Key;

const SECOND: Duration = Duration::from_secs(1);

fn waiting(key: &str, deadline: Duration) -> (Waiting, oneshot::Receiver<Outcome>) {
    let (tell, told) = oneshot::channel();
    let key = Key::new(key).expect("a key");
    let step = Step::Acquire { key, value: String::new(), lease: 1_000, fence: None };
    (Waiting { step, deadline, told: Some(tell) }, told)
}

fn keys(batch: &Batch) -> Vec<String> {
    batch.steps.lock().iter().map(|waiting| waiting.step.key().as_str().to_owned()).collect()
}

#[test]
fn a_batch_is_sent_when_it_is_full_or_when_the_others_have_run() {
    let batches = Batches::default();
    let add = |key| batches.add(waiting(key, SECOND).0, 3).expect("it goes on");
    let first = add("a");
    assert!(first.starts_watch, "somebody has to see to the deadlines");
    assert!(matches!(first.next, Next::SendLater));
    let second = add("b");
    assert!(matches!(second.next, Next::Nothing) && !second.starts_watch && second.opened == first.opened);
    let Next::Send(full) = add("c").next else { panic!("three are enough") };
    assert_eq!(keys(&full), ["a", "b", "c"]);
    // The task that the first one asked for has not run, and sends what it finds.
    assert!(matches!(add("d").next, Next::Nothing));
    assert_eq!(keys(&batches.close().expect("the open one")), ["d"]);
    assert!(batches.close().is_none());
    assert!(matches!(add("e").next, Next::SendLater), "nobody joins a batch that is closed");
}

#[test]
fn a_task_that_is_gone_asks_for_nothing() {
    let (step, told) = waiting("a", SECOND);
    assert!(step.is_awaited());
    drop(told);
    assert!(!step.is_awaited());
}

#[test]
fn each_step_is_late_at_its_own_deadline() {
    let batches = Batches::default();
    let [(soon, mut told_soon), (later, mut told_later)] = [waiting("a", SECOND), waiting("b", 2 * SECOND)];
    let opened = batches.add(later, 9).expect("it goes on").opened;
    batches.add(soon, 9).expect("it goes on");
    let look = |after| batches.look(opened.plus(after));
    look(SECOND / 2);
    assert!(told_soon.try_recv().is_err());
    look(SECOND);
    assert!(matches!(told_soon.try_recv(), Ok(Outcome::Late)));
    assert!(told_later.try_recv().is_err());
    look(2 * SECOND);
    assert!(matches!(told_later.try_recv(), Ok(Outcome::Late)));
}

/// The task that was to send it is stuck. Who comes later joins another batch, which has a task of its own.
#[test]
fn a_batch_that_should_have_left_is_sent_by_whoever_looks() {
    let batches = Batches::default();
    let opened = batches.add(waiting("a", SECOND).0, 9).expect("it goes on").opened;
    assert!(batches.look(opened.plus(LOOK / 2)).overdue.is_none());
    let look = batches.look(opened.plus(LOOK));
    assert_eq!(keys(&look.overdue.expect("it is overdue")), ["a"]);
    assert!(!look.is_over, "it is not answered");
    assert!(matches!(batches.add(waiting("b", SECOND).0, 9).expect("it goes on").next, Next::SendLater));
}

#[test]
fn nobody_looks_once_all_are_answered() {
    let batches = Batches::default();
    let opened = batches.add(waiting("a", SECOND).0, 9).expect("it goes on").opened;
    let batch = batches.close().expect("the open one");
    assert!(!batches.look(opened).is_over);
    drop(Sending(&batches, &batch));
    assert!(batches.look(opened).is_over);
    assert!(batches.add(waiting("b", SECOND).0, 9).expect("it goes on").starts_watch);
}

#[test]
fn no_task_waits_for_a_runtime_that_has_ended() {
    let batches = Arc::new(Batches::default());
    let (step, mut told) = waiting("a", SECOND);
    batches.add(step, 9).expect("it goes on");
    drop(End::new(&batches));
    assert_eq!(told.try_recv().err(), Some(oneshot::error::TryRecvError::Closed));
    assert!(batches.add(waiting("b", SECOND).0, 9).is_none());
}

#[test]
fn a_look_that_is_over_ends_nothing() {
    let batches = Arc::new(Batches::default());
    let mut end = End::new(&batches);
    end.disarm();
    drop(end);
    assert!(batches.add(waiting("a", SECOND).0, 9).expect("it goes on").starts_watch);
}

/// A program whose main task panics drops its runtime while it unwinds.
#[test]
fn a_runtime_that_ends_by_a_panic_keeps_nobody_either() {
    let batches = Arc::new(Batches::default());
    let (step, mut told) = waiting("a", SECOND);
    batches.add(step, 9).expect("it goes on");
    let end = End::new(&batches);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _end = end;
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err());
    assert_eq!(told.try_recv().err(), Some(oneshot::error::TryRecvError::Closed));
}

#[test]
fn a_waker_that_panics_keeps_no_other_task_waiting() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let batches = Batches::default();
    let [(first, mut told_first), (second, mut told_second)] = [waiting("a", SECOND), waiting("b", SECOND)];
    let waker = std::task::Waker::from(Arc::new(Panics));
    let first_poll = std::pin::Pin::new(&mut told_first).poll(&mut std::task::Context::from_waker(&waker));
    assert!(first_poll.is_pending());
    let opened = batches.add(first, 9).expect("it goes on").opened;
    batches.add(second, 9).expect("it goes on");
    batches.look(opened.plus(SECOND));
    assert!(matches!(told_second.try_recv(), Ok(Outcome::Late)));
}

#[test]
fn a_request_counts_until_it_is_over() {
    let batches = Batches::default();
    let (first, second) = (batches.count(), batches.count());
    assert_eq!(first.under_way(), 2);
    drop(second);
    assert_eq!(first.under_way(), 1);
}
