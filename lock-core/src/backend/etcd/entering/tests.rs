use std::time::Duration;

use super::*;
use crate::key::Key;
use crate::owner::{Identity, OwnerRecord, OwnerSource};

const LINE: &[u8] = b"k/";

fn wanted(mode: Mode) -> Wanted {
    let owner = OwnerSource::new().expect("random bytes").mint();
    let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
    let mut claim = Claim::new(Key::new("k").expect("a key"), owner, Duration::from_secs(5), record);
    claim.mode = mode;
    Wanted { claim, ask: Ask::Enqueue { room: None }, began: crate::backend::etcd::session::now() }
}

fn arrive(entering: &Arc<Entering>, mode: Mode) -> Arrival {
    entering.arrive(LINE, mode, || wanted(mode))
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

fn numbers(entering: &Entering) -> Vec<u64> {
    entering.gathered(LINE).iter().map(|(number, _)| *number).collect()
}

fn is_unused(entering: &Entering) -> bool {
    entering.0.lock().is_empty()
}

#[tokio::test]
async fn who_arrives_while_another_enters_gathers() {
    let entering = Arc::new(Entering::default());
    drop(enters(&entering, Mode::Exclusive));
    assert!(is_unused(&entering), "it was alone");
    let turn = enters(&entering, Mode::Exclusive);
    let [(mut first, starts), (second, starts_too)] = [(); 2].map(|()| gathers(&entering, Mode::Exclusive));
    assert!(starts && !starts_too, "one task for all");
    let left = entering.inside(LINE).expect("one is inside");
    let left = left.notified();
    drop(turn);
    left.await;
    assert!(entering.inside(LINE).is_none());
    assert_eq!(numbers(&entering), [1, 2]);
    let (third, starts) = gathers(&entering, Mode::Shared);
    assert!(!starts, "the task still has claims");
    let taken = entering.take(LINE, &[1], |_| {});
    let turn = entering.turn_of(LINE, Mode::Exclusive);
    taken.into_iter().for_each(|one| one.tell(Ok((Plan::Known, None))));
    assert!(matches!(first.told().await, Some(Ok((Plan::Known, None)))));
    assert!(entering.inside(LINE).is_some(), "the turn of the one that was told");
    drop((turn, second, third));
    entering.end_task(LINE);
    assert!(is_unused(&entering));
}

#[test]
fn readers_enter_beside_each_other_but_not_past_others() {
    let entering = Arc::new(Entering::default());
    let readers = [(); 2].map(|()| enters(&entering, Mode::Shared));
    let (writer, _) = gathers(&entering, Mode::Exclusive);
    let (reader, _) = gathers(&entering, Mode::Shared);
    let [first, second] = readers;
    drop(first);
    assert!(entering.inside(LINE).is_some());
    drop(second);
    assert!(entering.inside(LINE).is_none());
    assert_eq!(numbers(&entering), [1, 2]);
    drop((writer, reader));
}

#[tokio::test]
async fn a_claim_that_is_dropped_gathers_no_longer() {
    let entering = Arc::new(Entering::default());
    let turn = enters(&entering, Mode::Exclusive);
    let mut places = [(); 4].map(|()| gathers(&entering, Mode::Exclusive).0);
    assert!(places[0].withdraw());
    let mut recorded = 0;
    let taken = entering.take(LINE, &[1, 2, 3], |_| recorded += 1);
    assert_eq!((taken.len(), recorded), (2, 2));
    assert!(!places[1].withdraw(), "a request may contain it");
    let [_, second, third, mut fourth] = places;
    drop(second);
    entering.put_back(LINE, taken);
    assert_eq!(numbers(&entering), [3, 4], "in their order, without the one that was dropped");
    entering.end_task(LINE);
    assert!(fourth.told().await.is_none(), "it goes on by itself");
    drop((turn, third));
    assert!(is_unused(&entering));
}

#[test]
fn a_claim_whose_runtime_has_stopped_is_waited_for_once() {
    let entering = Arc::new(Entering::default());
    let stopped = enters(&entering, Mode::Exclusive);
    let (place, _) = gathers(&entering, Mode::Exclusive);
    entering.forget_inside(LINE);
    assert!(entering.inside(LINE).is_none());
    let turn = entering.turn_of(LINE, Mode::Exclusive);
    drop(stopped);
    assert!(entering.inside(LINE).is_some(), "the turn of another claim");
    drop((turn, place));
}

#[test]
fn the_task_ends_when_no_claim_is_gathered() {
    let entering = Arc::new(Entering::default());
    let turn = enters(&entering, Mode::Exclusive);
    let (mut place, _) = gathers(&entering, Mode::Exclusive);
    assert!(place.withdraw());
    assert!(numbers(&entering).is_empty());
    let (_place, starts) = gathers(&entering, Mode::Exclusive);
    assert!(starts, "the other task has ended");
    drop(turn);
}
