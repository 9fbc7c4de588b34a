//! Tests of attempts: which attempts win, which lose and why, and which grants remain.

use std::time::Duration;

use lock_core::LockErrorKind;
use lock_core::backend::redlock::quorum::{Quorum, QuorumBuilder};
use lock_core::backend::{Ask, Attempt, Backend, Claim, Mode, Queue, Released};
use lock_core::testkit::Claims;
use tokio::time::Instant;

use super::node::{Health, Kind, Node, Weather};
use super::{TTL, claims, gets, held, key, millis, nodes, quorum, reader, release, settle};

/// The time for which an attempt with the ttl [`TTL`] waits for further nodes after a majority has answered.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
/// The time for which an attempt waits for a majority to answer.
const FOR_A_MAJORITY: Duration = Duration::from_secs(1);

async fn all_free(nodes: &[Node]) -> bool {
    for node in nodes {
        if !node.is_free(&key()).await {
            return false;
        }
    }
    true
}

fn error_of(answer: lock_core::Result<Attempt>) -> LockErrorKind {
    answer.expect_err("no verdict").kind()
}

#[test]
fn an_even_number_of_nodes_is_refused_and_the_text_says_why() {
    for count in [0, 2, 4] {
        let nodes = (0..count).map(Node::new).collect();
        let error = Quorum::new(nodes).expect_err("even, or none");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        let text = if count == 0 { "no nodes" } else { "half of it each: give it" };
        assert!(error.to_string().contains(text), "{error}");
    }
    for count in [1, 3, 5, 7] {
        Quorum::new((0..count).map(Node::new).collect()).expect("odd");
    }
    let three = || nodes::<3>().to_vec();
    assert!(Quorum::builder(three()).names(["a", "b"]).build().is_err());
    assert!(Quorum::builder(three()).node_timeout(Duration::ZERO).build().is_err());
    let named = Quorum::builder(three()).names(["a", "b", "c"]).build().expect("three of three");
    assert_eq!(format!("{named:?}"), r#"Quorum { nodes: ["a", "b", "c"], .. }"#);
}

#[tokio::test(start_paused = true)]
async fn a_majority_wins_whatever_the_others_say() {
    for health in [Health::Down, Health::Stuck, Health::Mute] {
        let nodes = nodes::<3>();
        nodes[1].is(health);
        let (quorum, [claim, other]) = (quorum(&nodes), claims());
        let start = Instant::now();
        assert!(gets(&quorum, &claim).await);
        held(&quorum, &other).await;
        assert_eq!(release(&quorum, &claim).await, Released::Released);
        assert!(gets(&quorum, &other).await);
        assert_eq!(start.elapsed(), Duration::ZERO, "nobody waits for the third ({health:?})");
    }
}

/// One owner has the first node, the other owner has the last node, and the node between them is down. So no owner has
/// a majority.
#[tokio::test(start_paused = true)]
async fn a_split_vote_has_no_winner_and_the_next_try_has_one() {
    let nodes = nodes::<3>();
    let (quorum, [first, second]) = (quorum(&nodes), claims());
    assert!(gets(&nodes[0].memory(), &first).await && gets(&nodes[2].memory(), &second).await);
    nodes[1].is(Health::Down);
    let told = tokio::join!(held(&quorum, &first), held(&quorum, &second));
    assert!(!told.0.own && !told.1.own, "nobody has the key");
    assert!(all_free(&nodes).await, "both gave back what they had");
    nodes[1].is(Health::Well);
    assert!(gets(&quorum, &first).await);
    held(&quorum, &second).await;
}

#[tokio::test(start_paused = true)]
async fn of_many_who_ask_at_once_at_most_one_wins_and_the_others_leave_nothing() {
    let (mut winners, mut splits) = (0, 0);
    for seed in 0..60 {
        let nodes: Vec<_> = (0..3 + seed % 2 * 2).map(|number| Node::new(seed * 10 + number)).collect();
        nodes.iter().for_each(|node| node.weather(Weather { delay: millis(20), lost: 0 }));
        let (quorum, contenders) = (quorum(&nodes), claims::<4>());
        let tries = contenders.clone().map(|claim| {
            let quorum = quorum.clone();
            tokio::spawn(async move { gets(&quorum, &claim).await })
        });
        let mut won = Vec::new();
        for (task, claim) in tries.into_iter().zip(&contenders) {
            if task.await.expect("no panic") {
                won.push(claim);
            }
        }
        assert!(won.len() <= 1, "seed {seed}");
        // After this time, all late calls have completed.
        tokio::time::sleep(millis(200)).await;
        match won.first() {
            Some(winner) => {
                winners += 1;
                for node in &nodes {
                    assert!(node.has(winner).await || node.is_free(&key()).await, "seed {seed}");
                }
                release(&quorum, winner).await;
                tokio::time::sleep(millis(200)).await;
            }
            None => splits += 1,
        }
        assert!(all_free(&nodes).await, "seed {seed}");
    }
    assert!(winners > 10 && splits > 3, "{winners} winners, {splits} split votes");
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_there_is_no_quorum_in_time() {
    for health in [Health::Down, Health::Stuck, Health::Mute] {
        for (given, in_time) in [
            (None, FOR_A_MAJORITY),
            (Some(millis(20)), millis(20)),
            (Some(millis(200)), millis(200)),
            (Some(Duration::from_secs(60)), TTL / 5),
        ] {
            let in_time = if health == Health::Down { Duration::ZERO } else { in_time };
            let nodes = nodes::<5>();
            nodes[1..4].iter().for_each(|node| node.is(health));
            let builder = Quorum::builder(nodes.to_vec());
            let builder = given.into_iter().fold(builder, QuorumBuilder::node_timeout);
            let quorum = builder.build().expect("odd");
            let [claim] = claims();
            let start = Instant::now();
            let error = quorum.acquire(&claim, Ask::Try).await.expect_err("2 of 5");
            assert_eq!((error.kind(), error.is_temporary()), (LockErrorKind::NoQuorum, true));
            assert!(
                error.to_string().contains("3 of 5 nodes did not answer, 3 are needed: `2`: "),
                "{error}"
            );
            assert_eq!(start.elapsed(), in_time, "{health:?}, {given:?}");
            settle().await;
            assert!(nodes[0].is_free(&key()).await && nodes[4].is_free(&key()).await, "given back");

            nodes.iter().for_each(|node| node.is(Health::Well));
            // The library also sends a release after such an error.
            release(&quorum, &claim).await;
            settle().await;
            let [next] = claims();
            assert!(gets(&quorum, &next).await, "the outage is over ({health:?})");
        }
    }
}

/// No request has been sent to the node since it returned. Its vote is needed now.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_is_waited_for_where_another_fails() {
    for health in [Health::Down, Health::Stuck] {
        let nodes = nodes::<3>();
        let quorum = quorum(&nodes);
        nodes[2].is(Health::Down);
        for _ in 0..3 {
            let [claim] = claims();
            assert!(gets(&quorum, &claim).await);
            release(&quorum, &claim).await;
            settle().await;
        }
        assert_eq!(quorum.unresponsive_nodes(), ["3"]);
        nodes[2].is(Health::Well);
        nodes[2].slow(Kind::Try, millis(5));
        nodes[1].is(health);
        let [claim] = claims();
        assert!(gets(&quorum, &claim).await, "two of three are well ({health:?})");
    }
}

#[tokio::test(start_paused = true)]
async fn a_yes_that_comes_after_the_attempt_has_failed_goes_back() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    nodes[1].is(Health::Down);
    nodes[2].is(Health::Stuck);
    assert_eq!(error_of(quorum.acquire(&claim, Ask::Try).await), LockErrorKind::NoQuorum);
    assert!(nodes[0].is_free(&key()).await);
    nodes[2].is(Health::Well);
    settle().await;
    assert_eq!(nodes[2].calls().releases, 1);
    assert!(all_free(&nodes).await);
}

/// The other nodes have refused the attempt, so no caller requests a release.
#[tokio::test(start_paused = true)]
async fn what_a_node_may_have_granted_that_lost_its_answer_goes_back_soon() {
    let nodes = nodes::<3>();
    let (quorum, [claim, other]) = (quorum(&nodes), claims());
    assert!(gets(&nodes[0].memory(), &other).await && gets(&nodes[1].memory(), &other).await);
    nodes[2].is(Health::Mute);
    held(&quorum, &claim).await;
    settle().await;
    assert!(nodes[2].has(&claim).await);
    tokio::time::sleep(FOR_A_MAJORITY * 2 + millis(1)).await;
    assert!(nodes[2].is_free(&key()).await);
}

#[tokio::test(start_paused = true)]
async fn a_yes_that_comes_after_the_attempt_has_won_stays() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    nodes[2].is(Health::Stuck);
    assert!(gets(&quorum, &claim).await);
    nodes[2].is(Health::Well);
    settle().await;
    assert!(nodes[2].has(&claim).await);
    assert_eq!(release(&quorum, &claim).await, Released::Released);
    settle().await;
    assert!(all_free(&nodes).await);
}

/// The release reaches the node before the acquire, because the acquire is delayed.
#[tokio::test(start_paused = true)]
async fn a_yes_that_comes_after_the_release_goes_back() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    nodes[2].slow(Kind::Try, Duration::from_secs(3));
    assert!(gets(&quorum, &claim).await);
    assert_eq!(release(&quorum, &claim).await, Released::Released);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(nodes[2].calls().releases, 2);
    assert!(all_free(&nodes).await);
}

/// The holder releases before its last node has answered. After that late answer, the node receives exactly one
/// release.
#[tokio::test(start_paused = true)]
async fn a_late_yes_and_the_release_of_its_owner_make_one_release() {
    for delay in [1, 20, 40] {
        let nodes = nodes::<3>();
        let (quorum, [claim, next]) = (quorum(&nodes), claims());
        nodes[2].slow(Kind::Try, millis(delay));
        assert!(gets(&quorum, &claim).await);
        assert_eq!(release(&quorum, &claim).await, Released::Released, "it does not wait for the straggler");
        assert_eq!(nodes[2].calls().releases, 0, "nothing to free yet");
        tokio::time::sleep(millis(2 * delay)).await;
        assert_eq!(nodes.each_ref().map(|node| node.calls().releases), [1; 3], "after {delay} ms");
        assert!(all_free(&nodes).await);
        assert!(gets(&quorum, &next).await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_dropped_leaves_nothing() {
    for (delay, is_released) in [(100, true), (300, true), (100, false), (300, false)] {
        let nodes = nodes::<3>();
        let (quorum, [claim]) = (quorum(&nodes), claims());
        nodes.iter().for_each(|node| node.slow(Kind::Try, millis(delay)));
        let attempt = tokio::time::timeout(millis(50), quorum.acquire(&claim, Ask::Try)).await;
        assert!(attempt.is_err());
        if is_released {
            // The library releases after a dropped attempt. The release reaches the nodes before the acquire does.
            release(&quorum, &claim).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(all_free(&nodes).await);
    }
}

/// The release after a failed attempt is slow. The same owner tries again before the release has arrived.
#[tokio::test(start_paused = true)]
async fn a_vote_that_a_release_is_on_its_way_to_does_not_count() {
    let nodes = nodes::<3>();
    let (quorum, [claim, other]) = (quorum(&nodes), claims());
    // The first attempt is granted by only one of three nodes.
    assert!(gets(&nodes[1].memory(), &other).await && gets(&nodes[2].memory(), &other).await);
    nodes[0].slow(Kind::Release, Duration::from_secs(5));
    let start = Instant::now();
    held(&quorum, &claim).await;
    assert_eq!(start.elapsed(), NODE_TIMEOUT, "it waits for the release, and not for ever");
    assert!(nodes[0].has(&claim).await, "which has not arrived");
    assert!(claim.is_resent(), "the library goes on with another owner, for which that node counts");
    nodes[0].slow(Kind::Release, Duration::ZERO);
    // The owner still has the first node, and its second attempt can also get the second node, which is free. But a
    // release is on its way to the first node, so the vote of that node must not count.
    nodes[1].forget();
    nodes[2].is(Health::Down);
    assert_eq!(error_of(quorum.acquire(&claim, Ask::Try).await), LockErrorKind::NoQuorum);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(nodes[0].is_free(&key()).await, "now it has");
    // The votes of the two other nodes are enough.
    nodes[2].forget();
    nodes[2].is(Health::Well);
    assert!(gets(&quorum, &claim).await);
    assert!(!nodes[0].has(&claim).await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_is_not_waited_for_and_not_overrun() {
    let nodes = nodes::<3>();
    let (quorum, [holder]) = (quorum(&nodes), claims());
    // If the two nodes that answer vote differently, the vote of the third node is needed.
    assert!(gets(&nodes[0].memory(), &holder).await);
    nodes[2].is(Health::Stuck);
    let mut waits = Vec::new();
    for _ in 0..10 {
        let [claim] = claims();
        let start = Instant::now();
        let _ = quorum.acquire(&claim, Ask::Try).await;
        waits.push(start.elapsed());
    }
    assert_eq!(waits[..3], [NODE_TIMEOUT; 3]);
    assert_eq!(waits[4..], [Duration::ZERO; 6], "known to be silent");
    assert!(nodes[2].calls().tries <= 4, "{:?}", nodes[2].calls());
    assert_eq!(quorum.unresponsive_nodes(), ["3"]);
    // When the hanging request is given up, another request is sent, and no caller waits for its answer.
    tokio::time::sleep(TTL * 2).await;
    let (asked, start, [claim, holder]) = (nodes[2].calls().tries, Instant::now(), claims());
    assert!(gets(&nodes[0].memory(), &holder).await);
    held(&quorum, &claim).await;
    assert_eq!((nodes[2].calls().tries, start.elapsed()), (asked + 1, Duration::ZERO));

    nodes[2].is(Health::Well);
    settle().await;
    assert_eq!(quorum.unresponsive_nodes(), [""; 0], "what it was asked it answers now");
    let [claim] = claims();
    assert!(gets(&quorum, &claim).await, "and its vote counts");
    assert!(nodes[2].has(&claim).await);
}

/// If the other nodes disagree, the slow node decides. The attempt waits for it briefly. A late answer does not count
/// as a failure of the node.
#[tokio::test(start_paused = true)]
async fn a_slow_node_is_waited_for_briefly_and_stays_a_node_like_the_others() {
    for (delay, waited, won) in [(40, 40, true), (80, 50, false)] {
        let nodes = nodes::<3>();
        let (quorum, [holder]) = (quorum(&nodes), claims());
        nodes[2].slow(Kind::Try, millis(delay));
        for _ in 0..5 {
            assert!(gets(&nodes[0].memory(), &holder).await);
            let (start, [claim]) = (Instant::now(), claims());
            let granted = gets(&quorum, &claim).await;
            assert_eq!((granted, start.elapsed()), (won, millis(waited)), "{delay} ms");
            if granted {
                release(&quorum, &claim).await;
            }
            tokio::time::sleep(millis(100)).await;
            release(&nodes[0].memory(), &holder).await;
            assert!(all_free(&nodes).await, "what it granted too late went back");
            assert_eq!(quorum.unresponsive_nodes(), [""; 0]);
        }
        // If the other nodes agree, no caller waits for the slow node, but the slow node grants the lock too.
        let (start, [claim]) = (Instant::now(), claims());
        assert!(gets(&quorum, &claim).await);
        assert_eq!(start.elapsed(), Duration::ZERO);
        tokio::time::sleep(millis(delay)).await;
        settle().await;
        assert!(nodes[2].has(&claim).await, "{delay} ms");
    }
}

/// Twenty requests run at once, and the same node is always the slowest. The other nodes also need longer than
/// `NODE_TIMEOUT`.
#[tokio::test(start_paused = true)]
async fn nodes_that_are_all_far_away_are_a_majority_and_none_of_them_is_given_up() {
    let nodes = nodes::<3>();
    let quorum = quorum(&nodes);
    for (node, delay) in nodes.iter().zip([150, 160, 170]) {
        node.slow(Kind::Try, millis(delay));
        node.slow(Kind::Release, millis(delay));
    }
    let tries = (0..20).map(|number| {
        let quorum = quorum.clone();
        let key = lock_core::key::Key::new(&format!("order:{number}")).expect("a key");
        let claim = Claims::new().expect("random bytes").exclusive(&key, TTL);
        tokio::spawn(async move {
            assert!(gets(&quorum, &claim).await);
            assert_eq!(quorum.unresponsive_nodes(), [""; 0], "nobody waited in vain");
            assert_eq!(release(&quorum, &claim).await, Released::Released);
        })
    });
    for attempt in tries.collect::<Vec<_>>() {
        attempt.await.expect("no panic");
    }
    tokio::time::sleep(FOR_A_MAJORITY).await;
    assert_eq!(quorum.unresponsive_nodes(), [""; 0]);
    assert!(nodes[2].calls().tries == 20 && all_free(&nodes).await);
}

#[tokio::test(start_paused = true)]
async fn whom_nobody_waits_for_is_needed_where_the_others_are_no_majority() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    for node in &nodes[1..] {
        node.is(Health::Down);
    }
    for _ in 0..5 {
        let [claim] = claims();
        assert_eq!(error_of(quorum.acquire(&claim, Ask::Try).await), LockErrorKind::NoQuorum);
    }
    assert_eq!(quorum.unresponsive_nodes(), ["2", "3"]);
    for node in &nodes[1..] {
        node.is(Health::Well);
        node.weather(Weather { delay: millis(50), lost: 0 });
    }
    assert!(gets(&quorum, &claim).await, "the first attempt after an outage is no victim of it");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_holder_and_when_another_try_makes_sense() {
    let nodes = nodes::<3>();
    let quorum = quorum(&nodes);
    let [mut brief, long, asks] = claims();
    brief.ttl = Duration::from_secs(3);
    assert!(gets(&nodes[0].memory(), &brief).await);
    assert!(gets(&nodes[1].memory(), &long).await && gets(&nodes[2].memory(), &long).await);
    let told = held(&quorum, &asks).await;
    assert_eq!(told.holder, Some(long.record.clone()));
    assert_eq!(told.remaining, Some(TTL), "with one node alone nobody wins");
    assert!(told.own, "a majority is held by the manager that asks");
    assert_eq!((told.queued_at, told.position), (None, None));
}

/// Permits of a semaphore on the key are held on `count` of the three nodes.
#[tokio::test(start_paused = true)]
async fn a_key_in_use_as_something_else_is_refused_where_that_is_so_on_a_majority() {
    let permit =
        || Claims::new().expect("random bytes").claim(&key(), Mode::Permit { of: 2 }, Queue::Barging, TTL);
    for (count, refused) in [(1, false), (2, true), (3, true)] {
        let nodes = nodes::<3>();
        let (quorum, [claim]) = (quorum(&nodes), claims());
        for node in &nodes[..count] {
            assert!(gets(&node.memory(), &permit()).await);
        }
        match quorum.acquire(&claim, Ask::Try).await {
            Ok(attempt) => assert!(!refused && matches!(attempt, Attempt::Granted(_))),
            Err(error) => {
                assert!(refused && error.kind() == LockErrorKind::InvalidRequest, "{error}");
                assert!(error.to_string().contains("a semaphore of 2 permits"), "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_quorum_cannot_do_is_refused_with_the_reason() {
    let nodes = nodes::<3>();
    let quorum = quorum(&nodes);
    let source = Claims::new().expect("random bytes");
    let refused = [
        (
            source.claim(&key(), Mode::Permit { of: 2 }, Queue::Barging, TTL),
            "3 nodes with 2 permits each have 6",
        ),
        (
            source.claim(&key(), Mode::Permit { of: 1 }, Queue::Barging, TTL),
            "one permit is an exclusive lock",
        ),
        (source.claim(&key(), Mode::Exclusive, Queue::Fifo, TTL), "a quorum has no queue"),
    ];
    for (claim, reason) in refused {
        for answer in [
            quorum.acquire(&claim, Ask::Try).await,
            quorum.acquire(&claim, Ask::Enqueue { room: None }).await,
        ] {
            let error = answer.expect_err("it cannot");
            assert_eq!(error.kind(), LockErrorKind::Unsupported);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
    assert_eq!(nodes[0].calls().tries, 0, "before any I/O");
}

/// This process was paused while the answers arrived.
#[tokio::test(start_paused = true)]
async fn a_grant_of_which_too_little_is_left_goes_back() {
    for (pause, worth) in [(TTL / 3, true), (TTL * 2 / 3, false), (TTL * 2, false)] {
        let nodes = nodes::<3>();
        let (quorum, [claim]) = (quorum(&nodes), claims());
        nodes[1].pauses_us(Kind::Try, pause);
        let start = lock_core::clock::Clock::Tokio.now();
        match quorum.acquire(&claim, Ask::Try).await {
            Ok(Attempt::Granted(grant)) => {
                assert!(worth, "after {pause:?}");
                assert_eq!((grant.sent, grant.lease), (start, TTL), "counted from before the first request");
            }
            Ok(Attempt::Held(_)) => panic!("nobody has it"),
            Err(error) => {
                assert!(!worth && error.kind() == LockErrorKind::Unavailable, "{error}");
                settle().await;
                assert!(all_free(&nodes).await);
            }
        }
    }
}

/// A failed attempt releases only what it acquired itself, and not what its owner had before.
#[tokio::test(start_paused = true)]
async fn an_owner_that_has_the_lock_keeps_it_when_it_asks_in_vain() {
    for health in [Health::Well, Health::Mute, Health::Stuck] {
        let nodes = nodes::<3>();
        let (quorum, reader) = (quorum(&nodes), reader());
        assert!(gets(&quorum, &reader).await);
        settle().await;
        nodes[2].is(health);
        let mut upgrade = reader.clone();
        upgrade.mode = Mode::Exclusive;
        held(&quorum, &upgrade).await;
        let dropped = tokio::time::timeout(Duration::ZERO, quorum.acquire(&upgrade, Ask::Try)).await;
        drop(dropped);
        tokio::time::sleep(NODE_TIMEOUT * 4).await;
        for (number, node) in nodes.iter().enumerate() {
            assert!(node.has(&reader).await, "node {number} ({health:?})");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_won_or_lost_together() {
    let nodes = nodes::<3>();
    let (quorum, [other]) = (quorum(&nodes), claims());
    let source = Claims::new().expect("random bytes");
    let keys = ["order:1", "order:42", "order:7"].map(|key| lock_core::key::Key::new(key).expect("a key"));
    let all: Claim = source.all(keys.clone(), Queue::Barging, TTL);
    assert!(gets(&nodes[0].memory(), &other).await);
    assert!(gets(&quorum, &all).await, "two nodes have all of them");
    let part = source.exclusive(&keys[0], TTL);
    held(&quorum, &part).await;
    release(&quorum, &all).await;
    assert!(gets(&nodes[1].memory(), &other).await, "the key is another's on a majority");
    held(&quorum, &all).await;
    assert!(gets(&quorum, &part).await, "the other keys were given back");
}
