//! Tests of fencing tokens on nodes whose own tokens and clocks differ.

use std::time::Duration;

use fastrand::Rng;
use lock_core::LockErrorKind;
use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::{Ask, Attempt, Backend, Claim, FencingToken, Grant};

use super::node::{Calls, Health, Kind, Node};
use super::{TTL, claims, gets, millis, nodes, quorum, release, renew, settle};

async fn acquire(quorum: &Quorum<Node>, claim: &Claim) -> Grant {
    match quorum.acquire(claim, Ask::Try).await.expect("an answer") {
        Attempt::Granted(grant) => grant,
        Attempt::Held(held) => panic!("held: {held:?}"),
    }
}

fn with_fencing(mut claim: Claim, fencing: bool) -> Claim {
    claim.fencing = fencing;
    claim
}

fn fenced() -> Claim {
    let [claim] = claims();
    with_fencing(claim, true)
}

/// A function with which an owner gets its token.
type HowToGetOne = for<'a> fn(&'a Quorum<Node>, &'a [Node], &'a Claim) -> BoxFuture<'a, FencingToken>;
type BoxFuture<'a, T> = lock_core::backend::BoxFuture<'a, T>;

fn of_the_quorum<'a>(
    quorum: &'a Quorum<Node>,
    _: &'a [Node],
    claim: &'a Claim,
) -> BoxFuture<'a, FencingToken> {
    Box::pin(async move {
        match acquire(quorum, claim).await.fence {
            Some(token) => token,
            None => quorum.fence(claim).await.expect("a majority is there"),
        }
    })
}

/// Returns the largest token of a majority, but reports this token to no node. This is a planted bug.
fn told_to_nobody<'a>(
    quorum: &'a Quorum<Node>,
    nodes: &'a [Node],
    claim: &'a Claim,
) -> BoxFuture<'a, FencingToken> {
    Box::pin(async move {
        acquire(quorum, &with_fencing(claim.clone(), false)).await;
        let mut tokens = Vec::new();
        for node in nodes {
            tokens.extend(node.fence(claim).await.ok());
        }
        tokens.into_iter().max().expect("a majority is there")
    })
}

/// Lets owners get tokens, one owner after another, each on the majority of nodes that is up. The clocks of the nodes
/// differ by up to `skew`. Nodes may restart without their data, with at least `forget` between two restarts. Returns
/// the first two tokens that do not grow.
async fn owners(
    seed: u64,
    how: HowToGetOne,
    skew: u64,
    forget: Option<Duration>,
) -> Option<(FencingToken, FencingToken)> {
    let mut rng = Rng::with_seed(seed);
    let nodes: Vec<_> = (0..if rng.bool() { 3 } else { 5 }).map(Node::new).collect();
    nodes.iter().for_each(|node| node.skew(millis(rng.u64(0..=skew))));
    let quorum = quorum(&nodes);
    let mut last = FencingToken::new(0);
    for _ in 0..30 {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        rng.shuffle(&mut order);
        let down = &order[..rng.usize(0..=nodes.len() / 2)];
        down.iter().for_each(|node| nodes[*node].is(Health::Down));
        let [mut claim] = claims();
        claim.fencing = rng.bool();
        let token = how(&quorum, &nodes, &claim).await;
        if token <= last {
            return Some((last, token));
        }
        last = token;
        if rng.bool() {
            let _ = renew(&quorum, &claim).await;
        }
        if rng.bool() {
            release(&quorum, &claim).await;
        } else {
            tokio::time::sleep(TTL).await;
        }
        settle().await;
        nodes.iter().for_each(|node| node.is(Health::Well));
        if let Some(apart) = forget.filter(|_| rng.bool()) {
            // No lock is held at this time, so a restart loses only the tokens.
            tokio::time::sleep(TTL).await;
            nodes[rng.usize(0..nodes.len())].forget();
            tokio::time::sleep(apart).await;
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_over_every_sequence_of_majorities() {
    for seed in 0..60 {
        // If no node forgets, tokens grow even if the clocks differ by hours.
        assert_eq!(owners(seed, of_the_quorum, 10_000_000, None).await, None, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_though_nodes_forget_that_are_away_for_longer_than_clocks_differ() {
    for seed in 0..60 {
        let away = Some(Duration::from_secs(5));
        assert_eq!(owners(seed, of_the_quorum, 4_900, away).await, None, "seed {seed}");
    }
}

/// The documentation names two limits, and this test shows both. Tokens decrease if the token of a holder is not
/// reported to a majority. They also decrease if a node forgets its data and its clock is behind.
#[tokio::test(start_paused = true)]
async fn the_check_finds_tokens_that_fall() {
    let mut found = [false; 2];
    for seed in 0..60 {
        found[0] |= owners(seed, told_to_nobody, 10_000_000, None).await.is_some();
        found[1] |= owners(seed, of_the_quorum, 10_000_000, Some(Duration::ZERO)).await.is_some();
    }
    assert_eq!(found, [true; 2]);
}

#[tokio::test(start_paused = true)]
async fn one_token_a_turn_whichever_nodes_answer() {
    let nodes = nodes::<3>();
    for (node, skew) in nodes.iter().zip([0, 900, 40]) {
        node.skew(millis(skew));
    }
    let quorum = quorum(&nodes);
    let [mut claim] = claims();
    assert!(gets(&quorum, &claim).await);
    let mut last = FencingToken::new(0);
    for turn in 0..4 {
        claim.handoffs = turn;
        let first = quorum.fence(&claim).await.expect("ours");
        assert!(first > last, "turn {turn}");
        for (number, node) in nodes.iter().enumerate() {
            node.is(Health::Down);
            let again = quorum.fence(&claim).await.expect("ours");
            assert_eq!(again, first, "turn {turn}, {number} down");
            node.is(Health::Well);
        }
        last = first;
    }
    // The lease has ended, so another owner may have had the key in the meantime.
    tokio::time::sleep(TTL).await;
    assert_eq!(quorum.fence(&claim).await.expect_err("it ran out").kind(), LockErrorKind::Lost);
    assert!(acquire(&quorum, &with_fencing(claim, true)).await.fence > Some(last));
}

#[tokio::test(start_paused = true)]
async fn no_token_is_seen_that_a_majority_does_not_know() {
    for health in [Health::Down, Health::Stuck, Health::Mute] {
        let nodes = nodes::<3>();
        nodes[1].skew(millis(50));
        let quorum = quorum(&nodes);
        let [claim, next] = claims();
        assert!(gets(&quorum, &claim).await);
        settle().await;
        // Two nodes return their tokens. One of these nodes is gone before the larger token is written back.
        nodes[0].is(Health::Down);
        nodes[2].slow(Kind::Fence, millis(5));
        let asked = tokio::spawn({
            let (quorum, claim) = (quorum.clone(), claim.clone());
            async move { quorum.fence(&claim).await }
        });
        tokio::time::sleep(millis(2)).await;
        nodes[1].is(health);
        let error = asked.await.expect("no panic").expect_err("one of three");
        assert_eq!(error.kind(), LockErrorKind::NoQuorum, "{error}");
        nodes.iter().for_each(|node| node.is(Health::Well));
        let token = quorum.fence(&claim).await.expect("ours");
        release(&quorum, &claim).await;
        assert!(acquire(&quorum, &with_fencing(next, true)).await.fence > Some(token));
    }
}

/// A request for a token late in the lease does not extend the lease.
#[tokio::test(start_paused = true)]
async fn to_ask_for_a_token_is_not_to_renew() {
    let nodes = nodes::<3>();
    nodes[1].skew(millis(50));
    let quorum = quorum(&nodes);
    let [claim, next] = claims();
    assert!(gets(&quorum, &claim).await);
    tokio::time::sleep(TTL / 2).await;
    quorum.fence(&claim).await.expect("ours");
    tokio::time::sleep(TTL / 2).await;
    assert!(gets(&quorum, &next).await);
}

/// The lease on a node begins when the request arrives there. So it ends later than the lease on which the holder
/// relies.
#[tokio::test(start_paused = true)]
async fn to_ask_for_a_token_after_the_lease_does_not_bring_it_back() {
    let nodes = nodes::<3>();
    nodes[1].skew(millis(50));
    nodes.iter().for_each(|node| node.slow(Kind::Try, millis(40)));
    let quorum = quorum(&nodes);
    let [claim, next] = claims();
    assert!(gets(&quorum, &claim).await);
    nodes.iter().for_each(|node| node.slow(Kind::Try, Duration::ZERO));
    tokio::time::sleep(TTL - millis(30)).await;
    assert!(nodes[0].has(&claim).await && nodes[1].has(&claim).await, "they forget it in 30 ms");
    assert_eq!(quorum.fence(&claim).await.expect_err("it is over").kind(), LockErrorKind::Lost);
    tokio::time::sleep(millis(40)).await;
    assert!(gets(&quorum, &next).await);
}

/// If the token of a grant cannot be created, the grant is released.
#[tokio::test(start_paused = true)]
async fn a_grant_without_its_token_is_none() {
    let nodes = nodes::<3>();
    nodes[0].skew(millis(50));
    nodes.iter().for_each(|node| node.slow(Kind::Renew, TTL));
    let quorum = quorum(&nodes);
    let error = quorum.acquire(&fenced(), Ask::Try).await.expect_err("no token");
    assert_eq!(error.kind(), LockErrorKind::NoQuorum, "{error}");
    let [next] = claims();
    assert!(gets(&quorum, &next).await);
}

#[tokio::test(start_paused = true)]
async fn what_it_costs() {
    let nodes = nodes::<3>();
    for (node, skew) in nodes.iter().zip([0, 900, 40]) {
        node.skew(millis(skew));
    }
    let quorum = quorum(&nodes);
    let mut before = nodes[0].calls();
    let mut since = async || {
        settle().await;
        let now = nodes[0].calls();
        let then = std::mem::replace(&mut before, now);
        let [tries, renewals, releases, fences] = [
            now.tries - then.tries,
            now.renewals - then.renewals,
            now.releases - then.releases,
            now.fences - then.fences,
        ];
        Calls { tries, renewals, releases, fences }
    };
    let none = Calls::default();
    let [claim] = claims();
    assert!(gets(&quorum, &claim).await);
    assert_eq!(since().await, Calls { tries: 1, ..none });
    quorum.fence(&claim).await.expect("ours");
    assert_eq!(since().await, Calls { fences: 1, renewals: 1, ..none });
    release(&quorum, &claim).await;
    assert_eq!(since().await, Calls { releases: 1, ..none });
    let claim = fenced();
    assert!(acquire(&quorum, &claim).await.fence.is_some());
    assert_eq!(since().await, Calls { tries: 1, renewals: 1, ..none });
}
