use std::time::Duration;

use super::*;
use crate::key::Key;
use crate::owner::{Identity, OwnerRecord, OwnerSource};

const LINE: &[u8] = b"k/";

/// Returns a claim of a new owner.
pub(in crate::backend::etcd) fn wanted(mode: Mode, ttl: Duration) -> Wanted {
    let owner = OwnerSource::new().expect("random bytes").mint();
    let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
    let mut claim = Claim::new(Key::new("k").expect("a key"), owner, ttl, record);
    claim.mode = mode;
    Wanted::new(claim, Ask::Enqueue { room: None }, crate::backend::etcd::session::now())
}

fn arrive(entering: &Arc<Entering>, mode: Mode) -> Arrival {
    entering.arrive(LINE, mode, || wanted(mode, Duration::from_secs(5)))
}

fn enters(entering: &Arc<Entering>, mode: Mode) -> Turn {
    match arrive(entering, mode) {
        Arrival::Enters(turn) => turn,
        Arrival::Gathers { .. } => panic!("nobody is before it"),
    }
}

/// Returns the place of a claim that gathers, and whether it starts the task.
fn gathers(entering: &Arc<Entering>, mode: Mode) -> (Place, bool) {
    match arrive(entering, mode) {
        Arrival::Enters(_) => panic!("others are before it"),
        Arrival::Gathers { place, starts_task } => (place, starts_task),
    }
}

/// Returns the number of the task.
fn task(entering: &Entering) -> u64 {
    entering.0.lock().entrances[LINE].task.expect("a task").0
}

fn is_unused(entering: &Entering) -> bool {
    entering.0.lock().entrances.is_empty()
}

#[tokio::test]
async fn who_arrives_while_another_enters_gathers() {
    let entering = Arc::new(Entering::default());
    drop(enters(&entering, Mode::Exclusive));
    assert!(is_unused(&entering), "it was alone");
    let turn = enters(&entering, Mode::Exclusive);
    let [(mut first, starts), (second, starts_too)] = [(); 2].map(|()| gathers(&entering, Mode::Exclusive));
    assert!(starts && !starts_too, "one task for all");
    let left = entering.turns(LINE).expect("one is inside");
    let left = left.notified();
    drop(turn);
    left.await;
    assert!(entering.turns(LINE).is_none());
    let task = task(&entering);
    let mut gathered = entering.gathered(LINE, task, false);
    let is_of = |one: &Gathered, place: &Place| Arc::ptr_eq(&one.wanted, &place.wanted);
    assert!(
        matches!(&gathered[..], [one, two] if is_of(one, &first) && is_of(two, &second)),
        "in their order"
    );
    let (third, starts) = gathers(&entering, Mode::Shared);
    assert!(!starts, "the task still has claims");
    let turn = entering.turn_of(LINE, Mode::Exclusive);
    gathered.remove(0).tell(Ok((Plan::Known, turn)));
    assert!(entering.turns(LINE).is_some(), "the turn of the one that was told");
    let word = first.told().await;
    assert!(matches!(word, Some(Ok((Plan::Known, Some(_))))));
    drop(word);
    assert_eq!(entering.gathered(LINE, task, true).len(), 1);
    assert!(entering.gathered(LINE, task, true).is_empty() && !is_unused(&entering), "the task has claims");
    assert!(entering.gathered(LINE, task, false).is_empty() && is_unused(&entering), "the task has ended");
    drop((second, third));
}

#[test]
fn readers_enter_beside_each_other_but_not_past_others() {
    let entering = Arc::new(Entering::default());
    let [first, second] = [(); 2].map(|()| enters(&entering, Mode::Shared));
    let (writer, _) = gathers(&entering, Mode::Exclusive);
    let (reader, _) = gathers(&entering, Mode::Shared);
    drop(first);
    assert!(entering.turns(LINE).is_some());
    drop(second);
    assert!(entering.turns(LINE).is_none());
    drop((writer, reader));
}

#[test]
fn a_claim_that_is_dropped_is_in_no_later_request() {
    let [waits, taken, refused] = [(); 3].map(|()| wanted(Mode::Exclusive, Duration::from_secs(5)));
    let place = |wanted: Wanted| Place { task: 1, wanted: Arc::new(wanted), told: oneshot::channel().1 };
    let [waits, taken, refused] = [waits, taken, refused].map(place);
    assert!(waits.leave() && waits.wanted.is_gone() && !waits.wanted.take());
    assert!(taken.wanted.take() && !taken.withdraw() && !taken.leave(), "a request may contain it");
    assert!(!taken.wanted.put_back());
    assert!(
        refused.wanted.take() && refused.wanted.put_back() && refused.withdraw(),
        "its request was refused"
    );
}

#[test]
fn a_claim_whose_runtime_has_stopped_is_waited_for_once() {
    let entering = Arc::new(Entering::default());
    let stopped = enters(&entering, Mode::Exclusive);
    let (place, _) = gathers(&entering, Mode::Exclusive);
    entering.forget_turns(LINE);
    assert!(entering.turns(LINE).is_none());
    let turn = entering.turn_of(LINE, Mode::Exclusive);
    drop(stopped);
    assert!(entering.turns(LINE).is_some(), "the turn of another claim");
    drop((turn, place));
    entering.forget_task(LINE, task(&entering));
    assert!(is_unused(&entering));
    let stopped = enters(&entering, Mode::Exclusive);
    entering.forget_turns(LINE);
    assert!(is_unused(&entering));
    let turn = enters(&entering, Mode::Exclusive);
    drop(stopped);
    assert!(entering.turns(LINE).is_some(), "the turn of a later crowd");
    drop(turn);
    assert!(is_unused(&entering));
}

#[tokio::test]
async fn without_its_task_a_claim_goes_on_by_itself() {
    let entering = Arc::new(Entering::default());
    let turn = enters(&entering, Mode::Exclusive);
    let (mut place, _) = gathers(&entering, Mode::Exclusive);
    let stopped = place.task;
    entering.forget_task(LINE, stopped);
    assert!(place.told().await.is_none() && entering.looks(LINE, stopped).is_none());
    let (other, starts) = gathers(&entering, Mode::Exclusive);
    assert!(starts && other.task != stopped, "another task");
    entering.forget_task(LINE, stopped);
    assert!(entering.gathered(LINE, stopped, true).is_empty(), "the first task goes on late");
    assert_eq!(entering.gathered(LINE, other.task, false).len(), 1);
    assert_eq!(entering.looks(LINE, other.task), Some(1));
    drop(turn);
    entering.forget_task(LINE, other.task);
    assert!(is_unused(&entering));
}
