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
    let at = |after| batches.look(opened.plus(after));
    assert_eq!(at(SECOND / 2), Some(SECOND / 2));
    assert!(told_soon.try_recv().is_err());
    assert_eq!(at(SECOND), Some(SECOND));
    assert!(matches!(told_soon.try_recv(), Ok(Outcome::Late)));
    assert!(told_later.try_recv().is_err());
    assert_eq!(at(2 * SECOND), None);
    assert!(matches!(told_later.try_recv(), Ok(Outcome::Late)));
    assert!(batches.add(waiting("c", SECOND).0, 9).expect("it goes on").starts_watch, "the last one ended");
}

#[tokio::test]
async fn a_step_that_is_due_sooner_wakes_the_watch() {
    let batches = Arc::new(Batches::default());
    let [(later, _told), (soon, told)] = [waiting("a", 1_000 * SECOND), waiting("b", SECOND / 20)];
    batches.add(later, 9).expect("it goes on");
    let watch = tokio::spawn(Arc::clone(&batches).watch());
    tokio::task::yield_now().await;
    batches.add(soon, 9).expect("it goes on");
    assert!(matches!(told.await, Ok(Outcome::Late)));
    watch.abort();
}

#[tokio::test]
async fn the_watch_ends_with_the_last_batch_and_a_later_one_starts_another() {
    let batches = Arc::new(Batches::default());
    batches.add(waiting("a", SECOND).0, 9).expect("it goes on");
    batches.answered(&batches.close().expect("the open one"));
    Arc::clone(&batches).watch().await;
    assert!(batches.add(waiting("b", SECOND).0, 9).expect("it has not ended").starts_watch);
}

#[test]
fn no_task_waits_for_a_runtime_that_has_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let batches = Arc::new(Batches::default());
    let (step, mut told) = waiting("a", SECOND);
    batches.add(step, 9).expect("it goes on");
    runtime.spawn(Arc::clone(&batches).watch());
    runtime.block_on(tokio::task::yield_now());
    drop(runtime);
    assert_eq!(told.try_recv().err(), Some(oneshot::error::TryRecvError::Closed));
    assert!(batches.add(waiting("b", SECOND).0, 9).is_none());
}

#[test]
fn a_request_counts_until_it_is_over() {
    let batches = Arc::new(Batches::default());
    let (first, second) = (batches.count(), batches.count());
    assert_eq!(first.under_way(), 2);
    drop(second);
    assert_eq!(first.under_way(), 1);
}
