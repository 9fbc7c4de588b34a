use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{FencingToken, LockErrorKind, LockManager, OnLost};
use tokio::time::Instant;

use super::{Alive, depose, settle};
use crate::{is_free, millis};

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_gives_up_the_lead() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k");
    let led = election.run(|lease| async move { lease.fencing_token().await.unwrap() }).await.unwrap();
    let token = led.expect("the body has ended");
    assert!(is_free(&locks, "k").await && !election.is_leader());
    assert!(election.campaign().await.unwrap().fencing_token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_at_a_loss_and_made_anew_after_the_next_election() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k").ttl(millis(60_000));
    let (alive, tokens) = (Alive::default(), Arc::new(Mutex::new(Vec::<FencingToken>::new())));
    let runs = tokio::spawn({
        let (alive, tokens) = (alive.clone(), tokens.clone());
        election.run(move |lease| {
            let (one, tokens) = (alive.one(), tokens.clone());
            async move {
                let _one = one;
                let token = lease.fencing_token().await.unwrap();
                tokens.lock().unwrap().push(token);
                std::future::pending::<()>().await;
            }
        })
    });
    settle().await;
    for terms in 1..=3 {
        assert_eq!((alive.count(), tokens.lock().unwrap().len()), (1, terms));
        // Another candidate is next in the queue, so it leads between two terms of the run. The body must be dropped
        // before that candidate leads.
        let other = tokio::spawn({
            let (other, alive) = (locks.leader("k"), alive.clone());
            async move {
                let led = other.campaign().await.unwrap();
                (alive.count(), led.resign().await.is_ok())
            }
        });
        settle().await;
        assert!(depose(&locks, "k").await.unwrap());
        assert_eq!(other.await.unwrap(), (0, true), "a body is alive while another leads");
        // After such a short term, the candidate pauses.
        tokio::time::sleep(millis(100)).await;
    }
    let tokens = tokens.lock().unwrap().clone();
    assert!(tokens.is_sorted() && tokens.len() == 4, "{tokens:?}");
    runs.abort();
    settle().await;
    assert!(alive.count() == 0 && is_free(&locks, "k").await, "an aborted run gives up the lead");
}

#[tokio::test(start_paused = true)]
async fn resigning_ends_the_runs_of_all_clones_and_waits_for_them() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k");
    let alive = Alive::default();
    let run = |election: &lock_core::LeaderElection| {
        let alive = alive.clone();
        tokio::spawn(election.run(move |_| {
            let one = alive.one();
            async move {
                let _one = one;
                std::future::pending::<()>().await;
            }
        }))
    };
    let (leads, waits) = (run(&election), run(&election.clone()));
    settle().await;
    assert_eq!(alive.count(), 1);
    election.resign().await;
    assert_eq!(alive.count(), 0);
    assert!(is_free(&locks, "k").await, "the release was answered");
    for run in [leads, waits] {
        assert!(run.await.unwrap().unwrap().is_none());
    }
    // After a resignation, the same election can run again.
    assert!(election.run(|_| async {}).await.unwrap().is_some());
    election.resign().await;
    assert!(election.run(|_| async {}).await.unwrap().is_some(), "a run that began later goes on");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_never_polled_ends_by_resigning_too() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k");
    let run = tokio::spawn(election.run(|_| std::future::pending::<()>()));
    // The task of the run was not polled yet.
    election.resign().await;
    assert!(run.await.unwrap().unwrap().is_none());
    let never = election.run(|_| std::future::pending::<()>());
    drop(never);
    election.resign().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finishes_learns_of_the_loss_and_leads_again_after_its_end() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k").ttl(millis(60_000)).on_lost(OnLost::Finish);
    let steps = Arc::new(Mutex::new(Vec::new()));
    let run = tokio::spawn({
        let steps = steps.clone();
        election.run(move |lease| {
            let steps = steps.clone();
            async move {
                if !steps.lock().unwrap().is_empty() {
                    return "again";
                }
                lease.lost().await;
                tokio::time::sleep(millis(100)).await;
                steps.lock().unwrap().push("finished");
                "lost"
            }
        })
    });
    settle().await;
    assert!(depose(&locks, "k").await.unwrap());
    assert_eq!(run.await.unwrap().unwrap(), Some("again"), "the output of a lost term is dropped");
    assert_eq!(*steps.lock().unwrap(), ["finished"]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_cannot_wait_for_itself() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k");
    let inner = locks.clone();
    let ran = election.run(move |_| {
        let locks = inner.clone();
        async move {
            // The leader's body may enter the lock of the key.
            locks.lock("k").run(async {}).await.unwrap();
            locks.leader("k").campaign().await.map(drop).unwrap_err().kind()
        }
    });
    assert_eq!(ran.await.unwrap(), Some(LockErrorKind::Reentered));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_run() {
    let locks = LockManager::in_memory();
    let (election, other) = (locks.leader("k"), locks.leader("k"));
    let leads = tokio::spawn(election.run(|_| std::future::pending::<()>()));
    settle().await;
    let waits = tokio::spawn(other.run(|_| std::future::pending::<()>()));
    settle().await;
    let report = locks.shutdown(Duration::from_secs(1)).await;
    assert_eq!(report.revoked, ["k"]);
    for run in [leads, waits] {
        assert_eq!(run.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_resigned_lets_a_shutdown_end_at_once() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k");
    let leads = tokio::spawn(election.run(|_| std::future::pending::<()>()));
    settle().await;
    let began = Instant::now();
    election.resign().await;
    let report = locks.shutdown(Duration::from_secs(60)).await;
    assert!(report.revoked.is_empty() && began.elapsed() < millis(10), "{report:?} {:?}", began.elapsed());
    assert!(leads.await.unwrap().unwrap().is_none());
}
