//! Grants that a process keeps for an answer: those of the request may stand directly behind them.

use lock_core::strategy;
use lock_tests::{Flow, PATIENCE, Proxy, RedisServer, wait_until};

use crate::groups::asked;
use crate::in_line::{Grants, line, turn};
use crate::store::queue;
use crate::support::{LONG, connect, manager, ms, within};

/// While an answer is under way, the grant stays for those who may stand directly behind it, and for nobody else.
#[tokio::test]
async fn a_grant_is_kept_for_an_answer() {
    for gives_up in [false, true] {
        let server = RedisServer::start();
        let proxy = Proxy::before(&server);
        let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
        let held = one.fair("k").ttl(LONG).acquire().await.expect("it is free");
        let grants = Grants::default();
        proxy.replies(Flow::Hold);
        let mut tasks = line(&server, &[&one], &grants).await;
        let rival = turn(&server, 1, two.fair("k").ttl(LONG), &grants).await;
        within(PATIENCE, "no answer is waited for", held.release()).await.expect("it is kept");
        assert!(server.keys().contains(&"k".to_owned()) && queue(&server, "k") == (1, 1));
        let task = tasks.pop().expect("there is one");
        if gives_up {
            task.abort();
        }
        proxy.heal();
        assert_eq!(within(PATIENCE, "its turn", task).await.is_err(), gives_up);
        // Sooner than a grant is reclaimed that was kept for an answer which nobody takes.
        within(PATIENCE, "the other's turn", rival).await.expect("no panic");
        assert_eq!(grants.order(), if gives_up { vec![1] } else { vec![0, 1] });
        grants.check_tokens();
    }
}

/// The store has answered a request before others came: they do not go first because the answer is still under way.
#[tokio::test]
async fn a_grant_is_kept_for_an_answer_that_others_came_after() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
    let held = two.fair("k").ttl(LONG).acquire().await.expect("it is free");
    let grants = Grants::default();
    let mut tasks = line(&server, &[&one], &grants).await;
    let before = asked(&server);
    let mut next = Box::pin(one.fair("k").ttl(LONG).fencing(true).strategy(strategy::wait()).acquire());
    proxy.replies(Flow::Hold);
    wait_until("it asks", PATIENCE, async || {
        let ready = tokio::time::timeout(ms(1), &mut next).await.is_ok();
        assert!(!ready, "the key is held");
        asked(&server) > before
    })
    .await;
    let rival = turn(&server, 2, two.fair("k").ttl(LONG), &grants).await;
    assert_eq!(queue(&server, "k"), (2, 2), "the next stands behind the first, and the rival behind both");
    proxy.heal();
    held.release().await.expect("an answer");
    within(PATIENCE, "the first turn", tasks.remove(0)).await.expect("no panic");
    let guard = within(PATIENCE, "the next turn", next).await.expect("granted");
    grants.note(1, guard.fencing_token().await.expect("it came with the grant").get());
    guard.release().await.expect("an answer");
    within(PATIENCE, "the other's turn", rival).await.expect("no panic");
    assert_eq!(grants.order(), [0, 1, 2]);
    grants.check_tokens();
}

/// A future that nobody polls does not keep a grant.
#[tokio::test]
async fn a_grant_is_kept_for_a_second_at_most() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
    let held = one.fair("k").ttl(LONG).acquire().await.expect("it is free");
    proxy.replies(Flow::Hold);
    let mut stuck = Box::pin(one.fair("k").ttl(LONG).strategy(strategy::wait()).acquire());
    wait_until("it asks", PATIENCE, async || {
        let ready = tokio::time::timeout(ms(1), &mut stuck).await.is_ok();
        assert!(!ready, "the key is held");
        asked(&server) == 1
    })
    .await;
    held.release().await.expect("it is kept");
    proxy.heal();
    let next = within(PATIENCE, "the other's turn", two.fair("k").ttl(LONG).wait(LONG).acquire()).await;
    next.expect("granted").release().await.expect("an answer");
    drop(within(PATIENCE, "the one that is polled again", stuck).await.expect("granted"));
}
