//! Tests of renewals by majority, of healing nodes that lost the lock, and of releases.

use std::time::Duration;

use lock_core::LockErrorKind;
use lock_core::backend::{Backend, Claim, Released, Renew, Renewal};
use lock_core::clock::Clock;
use tokio::time::Instant;

use super::node::{Health, Kind, Node};
use super::{TTL, claims, gets, held, millis, nodes, quorum, reader, release, renew, settle};

fn is_renewed(renewal: &Renewal) -> bool {
    matches!(renewal, Renewal::Renewed { .. })
}

async fn holders(nodes: &[Node], claim: &Claim) -> Vec<bool> {
    let mut has = Vec::new();
    for node in nodes {
        has.push(node.has(claim).await);
    }
    has
}

/// The table has the number of nodes, how many of them forgot the lock, how many do not answer, and the result of the
/// renewal.
#[tokio::test(start_paused = true)]
async fn a_majority_renews_and_a_majority_loses() {
    let table = [
        (3, 0, 0, "renewed"),
        (3, 1, 0, "renewed"),
        (3, 0, 1, "renewed"),
        (3, 1, 1, "unknown"),
        (3, 0, 2, "unknown"),
        (3, 2, 0, "lost"),
        (3, 2, 1, "lost"),
        (5, 2, 0, "renewed"),
        (5, 1, 1, "renewed"),
        (5, 2, 1, "unknown"),
        (5, 1, 2, "unknown"),
        (5, 3, 0, "lost"),
        (5, 3, 2, "lost"),
    ];
    for health in [Health::Down, Health::Stuck, Health::Mute] {
        for (count, forgot, silent, expected) in table {
            let nodes: Vec<_> = (0..count).map(Node::new).collect();
            let (quorum, [claim]) = (quorum(&nodes), claims());
            assert!(gets(&quorum, &claim).await);
            settle().await;
            nodes[..forgot].iter().for_each(Node::forget);
            nodes[forgot..forgot + silent].iter().for_each(|node| node.is(health));
            let (start, before) = (Instant::now(), Clock::Tokio.now());
            let answer = match renew(&quorum, &claim).await {
                Renewal::Renewed { sent, .. } => {
                    assert_eq!(sent, before);
                    "renewed"
                }
                Renewal::NotOwned => "lost",
                Renewal::Unknown(error) => {
                    assert_eq!(error.kind(), LockErrorKind::NoQuorum);
                    "unknown"
                }
            };
            assert_eq!(answer, expected, "{count} nodes, {forgot} forgot, {silent} {health:?}");
            if expected != "unknown" {
                assert_eq!(start.elapsed(), Duration::ZERO, "nobody waits for a node that does not matter");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_node_does_not_delay_a_batch_and_each_grant_has_its_own_verdict() {
    let nodes = nodes::<5>();
    let quorum = quorum(&nodes);
    let source = lock_core::testkit::Claims::new().expect("random bytes");
    let batch: Vec<Claim> = (0..40)
        .map(|number| source.exclusive(&lock_core::key::Key::new(&format!("k{number}")).expect("a key"), TTL))
        .collect();
    for claim in &batch {
        assert!(gets(&quorum, claim).await);
    }
    settle().await;
    nodes[4].is(Health::Stuck);
    // Three nodes lose each grant whose number is a multiple of five. One node loses each of the remaining grants whose
    // number is a multiple of four.
    for (number, claim) in batch.iter().enumerate() {
        let lost = match number {
            _ if number.is_multiple_of(5) => 3,
            _ if number.is_multiple_of(4) => 1,
            _ => 0,
        };
        for node in &nodes[..lost] {
            release(&node.memory(), claim).await;
        }
    }
    let start = Instant::now();
    let renews: Vec<_> = batch.iter().map(|claim| Renew { claim, ttl: TTL }).collect();
    let answers = quorum.renew(&renews).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Renewal::Renewed { .. } => assert!(!number.is_multiple_of(5), "{number}"),
            Renewal::NotOwned => assert!(number.is_multiple_of(5), "{number}"),
            Renewal::Unknown(error) => panic!("{number}: {error}"),
        }
    }
    settle().await;
    for (number, claim) in batch.iter().enumerate() {
        let healed = nodes[0].has(claim).await;
        assert_eq!(healed, !number.is_multiple_of(5), "{number}: healed, or left alone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_the_grant_or_never_had_it_is_healed() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    nodes[2].is(Health::Down);
    assert!(gets(&quorum, &claim).await);
    nodes[2].is(Health::Well);
    for lost in [2, 0, 1] {
        nodes[lost].forget();
        assert!(is_renewed(&renew(&quorum, &claim).await));
        settle().await;
        assert_eq!(holders(&nodes, &claim).await, [true; 3], "{lost}");
    }
    // Every node has lost the lock once, one after another. The lock was held all the time.
    tokio::time::sleep(TTL / 2).await;
    assert!(is_renewed(&renew(&quorum, &claim).await));
    assert_eq!(release(&quorum, &claim).await, Released::Released);
    settle().await;
    assert_eq!(holders(&nodes, &claim).await, [false; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_late_is_healed_as_well() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    assert!(gets(&quorum, &claim).await);
    settle().await;
    nodes[1].forget();
    nodes[1].slow(Kind::Renew, millis(300));
    assert!(is_renewed(&renew(&quorum, &claim).await));
    assert!(!nodes[1].has(&claim).await);
    tokio::time::sleep(millis(301)).await;
    settle().await;
    assert!(nodes[1].has(&claim).await);
}

#[tokio::test(start_paused = true)]
async fn below_a_majority_nothing_is_healed() {
    for silent in [0, 1] {
        let nodes = nodes::<5>();
        let (quorum, [claim]) = (quorum(&nodes), claims());
        assert!(gets(&quorum, &claim).await);
        settle().await;
        nodes[..3 - silent].iter().for_each(Node::forget);
        nodes[3 - silent..3].iter().for_each(|node| node.is(Health::Stuck));
        assert!(!is_renewed(&renew(&quorum, &claim).await), "two of five");
        nodes.iter().for_each(|node| node.is(Health::Well));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(holders(&nodes[..3 - silent], &claim).await, vec![false; 3 - silent]);
    }
}

#[tokio::test(start_paused = true)]
async fn healing_takes_nothing_from_another_owner() {
    let nodes = nodes::<3>();
    let (quorum, [claim, other]) = (quorum(&nodes), claims());
    assert!(gets(&nodes[2].memory(), &other).await);
    assert!(gets(&quorum, &claim).await);
    for _ in 0..3 {
        assert!(is_renewed(&renew(&quorum, &claim).await));
        settle().await;
    }
    assert!(nodes[2].has(&other).await);
    assert_eq!(release(&quorum, &claim).await, Released::Released);
}

/// Another owner has the key on a node that returned empty. The node is healed soon after that owner has released.
#[tokio::test(start_paused = true)]
async fn a_node_that_others_take_meanwhile_is_healed_within_the_same_renewal() {
    let nodes = nodes::<3>();
    let (quorum, [claim, other]) = (quorum(&nodes), claims());
    assert!(gets(&quorum, &claim).await);
    settle().await;
    nodes[2].forget();
    nodes[2].slow(Kind::Try, millis(1));
    assert!(gets(&nodes[2].memory(), &other).await);
    assert!(is_renewed(&renew(&quorum, &claim).await));
    tokio::time::sleep(millis(20)).await;
    assert!(!nodes[2].has(&claim).await, "another has it there");
    release(&nodes[2].memory(), &other).await;
    tokio::time::sleep(millis(5)).await;
    assert!(nodes[2].has(&claim).await);
}

/// Another owner keeps the key on one node. The attempts to heal stay rare, and other locks are healed on that node.
#[tokio::test(start_paused = true)]
async fn healing_ends_where_another_stays() {
    let nodes = nodes::<3>();
    let (quorum, [other]) = (quorum(&nodes), claims());
    let source = lock_core::testkit::Claims::new().expect("random bytes");
    let all: Vec<Claim> = ["order:42", "a", "b"]
        .iter()
        .map(|key| source.exclusive(&lock_core::key::Key::new(key).expect("a key"), TTL))
        .collect();
    for claim in &all {
        assert!(gets(&quorum, claim).await);
    }
    settle().await;
    nodes[2].forget();
    assert!(gets(&nodes[2].memory(), &other).await);
    let before = nodes[2].calls().tries;
    nodes[2].slow(Kind::Try, millis(1));
    let renews: Vec<_> = all.iter().map(|claim| Renew { claim, ttl: TTL }).collect();
    assert!(quorum.renew(&renews).await.iter().all(is_renewed));
    tokio::time::sleep(millis(5)).await;
    assert!(nodes[2].has(&all[1]).await && nodes[2].has(&all[2]).await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let tries = nodes[2].calls().tries - before;
    assert!((10..100).contains(&tries), "{tries}");
    assert!(nodes[2].has(&other).await);
}

/// The lock is released while a node is being healed.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_given_back_is_not_brought_back_by_healing() {
    for slow in [Kind::Try, Kind::Renew] {
        let nodes = nodes::<3>();
        let (quorum, [claim]) = (quorum(&nodes), claims());
        assert!(gets(&quorum, &claim).await);
        settle().await;
        nodes[2].forget();
        nodes[2].slow(slow, millis(500));
        assert!(is_renewed(&renew(&quorum, &claim).await));
        settle().await;
        assert_eq!(release(&quorum, &claim).await, Released::Released);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(holders(&nodes, &claim).await, [false; 3], "{slow:?}");
        let tries = if slow == Kind::Try { 2 } else { 1 };
        assert_eq!(
            nodes[2].calls().tries,
            tries,
            "what is known to be given back is not asked for ({slow:?})"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_not_answered_in_time_is_none() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    assert!(gets(&quorum, &claim).await);
    nodes[0].slow(Kind::Renew, TTL / 2);
    nodes[1].slow(Kind::Renew, TTL / 2);
    let start = Instant::now();
    assert!(matches!(renew(&quorum, &claim).await, Renewal::Unknown(_)));
    assert!(start.elapsed() <= TTL / 6, "there is time for another");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_counts_from_before_the_first_request() {
    let nodes = nodes::<3>();
    let (quorum, [claim]) = (quorum(&nodes), claims());
    assert!(gets(&quorum, &claim).await);
    nodes.iter().for_each(|node| node.slow(Kind::Renew, millis(300)));
    nodes.iter().for_each(|node| node.slow(Kind::Downgrade, millis(300)));
    let before = Clock::Tokio.now();
    let renewed = renew(&quorum, &claim).await;
    assert!(matches!(renewed, Renewal::Renewed { sent, .. } if sent == before), "{renewed:?}");
    let before = Clock::Tokio.now();
    let downgraded = quorum.downgrade(&claim).await;
    assert!(matches!(downgraded, Renewal::Renewed { sent, .. } if sent == before), "{downgraded:?}");
}

/// A node's vote does not count while a release by the same owner may still arrive there.
#[tokio::test(start_paused = true)]
async fn a_node_with_a_release_on_its_way_has_no_vote_in_a_renewal() {
    let nodes = nodes::<3>();
    let (quorum, [claim, other]) = (quorum(&nodes), claims());
    assert!(gets(&nodes[1].memory(), &other).await && gets(&nodes[2].memory(), &other).await);
    nodes[0].slow(Kind::Release, TTL);
    held(&quorum, &claim).await;
    nodes[1].forget();
    nodes[2].forget();
    assert!(gets(&quorum, &claim).await, "by the other two");
    assert!(nodes[0].has(&claim).await);
    nodes[2].is(Health::Down);
    assert!(!is_renewed(&renew(&quorum, &claim).await), "one node, and one that is about to forget");
    nodes[2].is(Health::Well);
    assert!(is_renewed(&renew(&quorum, &claim).await));
}

#[tokio::test(start_paused = true)]
async fn releases() {
    // Columns: the number of nodes that forgot, the number of nodes that are silent, and the answer to a release.
    let table = [
        (0, 0, Some(Released::Released)),
        (1, 0, Some(Released::Released)),
        (0, 1, Some(Released::Released)),
        (1, 1, Some(Released::Released)),
        (2, 0, Some(Released::Expired)),
        (3, 0, Some(Released::Expired)),
        (2, 1, Some(Released::Expired)),
        (0, 2, None),
        (1, 2, None),
    ];
    for (forgot, silent, expected) in table {
        let nodes = nodes::<3>();
        let (quorum, [claim, other]) = (quorum(&nodes), claims());
        assert!(gets(&quorum, &claim).await);
        settle().await;
        nodes[..forgot].iter().for_each(Node::forget);
        nodes[3 - silent..].iter().for_each(|node| node.is(Health::Down));
        let released = quorum.release(&claim, None).await;
        assert_eq!(
            released.as_ref().ok().copied(),
            expected,
            "{forgot} forgot, {silent} silent: {released:?}"
        );
        match released {
            Ok(_) => assert!(gets(&quorum, &other).await, "{forgot} forgot, {silent} silent"),
            Err(error) => {
                assert_eq!((error.kind(), error.is_temporary()), (LockErrorKind::NoQuorum, true));
                nodes.iter().for_each(|node| node.is(Health::Well));
                release(&quorum, &claim).await;
                assert!(gets(&quorum, &other).await);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_kept_is_kept_on_a_majority() {
    let nodes = nodes::<3>();
    let (quorum, [claim, other]) = (quorum(&nodes), claims());
    nodes[1].is(Health::Down);
    assert!(gets(&quorum, &claim).await);
    let keep = Duration::from_secs(3);
    assert_eq!(quorum.release(&claim, Some(keep)).await.expect("an answer"), Released::Released);
    nodes[1].is(Health::Well);
    assert!(matches!(renew(&quorum, &claim).await, Renewal::NotOwned));
    tokio::time::sleep(keep - millis(1)).await;
    held(&quorum, &other).await;
    tokio::time::sleep(millis(1)).await;
    assert!(gets(&quorum, &other).await);
}

#[tokio::test(start_paused = true)]
async fn a_writer_becomes_a_reader_on_a_majority() {
    let nodes = nodes::<3>();
    let (quorum, [mut claim, writer]) = (quorum(&nodes), claims());
    assert!(gets(&quorum, &claim).await);
    settle().await;
    nodes[0].is(Health::Down);
    nodes[1].is(Health::Down);
    assert!(matches!(quorum.downgrade(&claim).await, Renewal::Unknown(_)), "one of three");
    nodes[1].is(Health::Well);
    held(&quorum, &reader()).await;
    assert!(is_renewed(&quorum.downgrade(&claim).await));
    claim.mode = lock_core::backend::Mode::Shared;
    assert!(gets(&quorum, &reader()).await);
    held(&quorum, &writer).await;
    assert!(is_renewed(&renew(&quorum, &claim).await));
    nodes[1].forget();
    nodes[2].forget();
    assert!(matches!(quorum.downgrade(&claim).await, Renewal::NotOwned));
}

/// Any majority for a reader and any majority for a writer have a node in common.
#[tokio::test(start_paused = true)]
async fn readers_keep_writers_out_over_different_majorities() {
    for (down_for_reader, down_for_writer) in [(0, 1), (1, 2), (2, 0), (0, 0)] {
        let nodes = nodes::<3>();
        let (quorum, [writer]) = (quorum(&nodes), claims());
        let (first, second) = (reader(), reader());
        nodes[down_for_reader].is(Health::Down);
        assert!(gets(&quorum, &first).await && gets(&quorum, &second).await);
        nodes[down_for_reader].is(Health::Well);
        nodes[down_for_writer].is(Health::Down);
        held(&quorum, &writer).await;
        nodes[down_for_writer].is(Health::Well);
        release(&quorum, &first).await;
        held(&quorum, &writer).await;
        release(&quorum, &second).await;
        settle().await;
        assert!(gets(&quorum, &writer).await);
        held(&quorum, &reader()).await;
    }
}
