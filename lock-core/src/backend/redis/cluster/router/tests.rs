//! Tests which views of the Cluster the router adopts, and which nodes it confirms as primaries.

use ::redis::Value;

use super::*;

fn router() -> Arc<Router> {
    Router::new(Config::parse("redis+cluster://a").expect("a URL")).expect("no files")
}

/// Returns the view of a Cluster of one node.
fn view(epoch: u32, host: &str) -> SlotMap {
    let info = format!("cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\n");
    node_view(&info, host, &[])
}

/// Returns the view of a Cluster of one node that reports its id.
fn view_of(epoch: u32, host: &str, id: &str) -> SlotMap {
    let info = format!("cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\n");
    node_view(&info, host, &[Value::SimpleString(id.to_owned())])
}

fn node_view(info: &str, host: &str, more: &[Value]) -> SlotMap {
    let mut node = vec![Value::SimpleString(host.to_owned()), Value::Int(1)];
    node.extend_from_slice(more);
    let node = Value::Array(node);
    let range = Value::Array(vec![Value::Int(0), Value::Int(i64::from(SLOTS) - 1), node]);
    SlotMap::read(info, &Value::Array(vec![range]), host).expect("a view")
}

fn place(router: &Router, slot: u16) -> String {
    router.node(slot).expect("a node").shared().address().to_string()
}

/// The node that a redirect named may be gone, while no other node reports a change.
#[test]
fn a_view_that_did_not_change_overrules_a_node_that_sent_on() {
    let router = router();
    router.adopt(view(1, "a"), true);
    let by = router.node(7).expect("a node");
    router.moved(7, &by, &("b".to_owned(), 2));
    assert_eq!([place(&router, 7), place(&router, 8)], ["b:2", "a:1"]);
    router.adopt(view(1, "a"), true);
    assert_eq!(place(&router, 7), "a:1");
}

/// A node that has not noticed a failover may name a paused former primary as the next owner of a slot.
#[test]
fn a_former_primary_is_not_vouched_for_as_the_next_of_a_slot() {
    let router = router();
    router.adopt(view(1, "a"), true);
    let by = router.node(7).expect("a node");
    let nexts = || router.read(|state| state.next_of_slots(Clock::Suspend.now()).count());
    router.next_of_slot(&by, &("b".to_owned(), 1));
    assert_eq!(nexts(), 1);
    router.adopt(view(2, "b"), true);
    router.adopt(view(3, "c"), true);
    assert_eq!(nexts(), 0, "it has lost its slots");
    router.next_of_slot(&by, &("b".to_owned(), 1));
    assert_eq!(nexts(), 0);
    router.adopt(view(4, "b"), true);
    router.next_of_slot(&by, &("b".to_owned(), 1));
    assert_eq!(nexts(), 1, "it has slots again");
}

fn ago(at: Moment, time: Duration) -> Moment {
    let (mono, boot) = at.parts();
    let time = i64::try_from(time.as_nanos()).expect("not so long");
    Moment::from_parts((mono - time, boot - time))
}

/// A node of another Cluster has the address of a node that is gone. The epochs of two Clusters cannot be compared.
#[test]
fn the_view_of_another_cluster_is_not_adopted_at_once() {
    let router = router();
    router.adopt(view_of(5, "a", "one"), true);
    for most in [false, true] {
        router.adopt(view_of(9, "b", "two"), most);
        assert_eq!(place(&router, 0), "a:1");
    }
    // The next view of the known Cluster is adopted, although its epoch is below the epoch of the other Cluster.
    router.adopt(view_of(6, "c", "one"), true);
    assert_eq!(place(&router, 0), "c:1");
    // All nodes may have been replaced since the last look.
    for (since, most) in [(Duration::ZERO, true), (BEHIND, true), (Duration::ZERO, false)] {
        router.adopt(view_of(9, "d", "three"), most);
        assert_eq!(place(&router, 0), "c:1");
        router.write(|state| state.others = state.others.map(|at| ago(at, since)));
    }
    router.adopt(view_of(9, "d", "three"), true);
    assert_eq!(place(&router, 0), "d:1");
}

#[test]
fn an_earlier_epoch_is_believed_when_most_nodes_stay_with_it() {
    let router = router();
    router.adopt(view(5, "a"), true);
    let tell = |most| router.adopt(view(1, "b"), most);
    let begin = |state: &mut State, first: Duration, last: Duration| {
        let now = Clock::Suspend.now();
        state.behind = Some((ago(now, first), ago(now, last)));
    };
    tell(true);
    assert_eq!(place(&router, 0), "a:1", "it was told once");
    router.write(|state| begin(state, 10 * BEHIND, 2 * BEHIND));
    tell(true);
    assert_eq!(place(&router, 0), "a:1", "what was told before is long ago");
    router.write(|state| begin(state, BEHIND, BEHIND / 2));
    tell(false);
    assert_eq!(place(&router, 0), "a:1", "one node alone may have slept");
    tell(true);
    assert_eq!(place(&router, 0), "b:1");
}
