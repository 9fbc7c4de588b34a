//! The commands that cross the network.

use lock_core::{LockError, LockManager, distributed_lock};
use lock_tests::{Recorder, RedisServer, SentCommand};

use crate::support::{cycle, manager, try_once};

/// Returns the commands that were sent, without those that maintain the connection.
fn sent(recorder: &mut Recorder<'_>) -> Vec<SentCommand> {
    let mut commands = recorder.take();
    commands.retain(|command| !matches!(command.name.as_str(), "CLIENT" | "PING" | "TIME" | "INFO"));
    commands
}

fn names(commands: &[SentCommand]) -> Vec<&str> {
    commands.iter().map(|command| command.name.as_str()).collect()
}

async fn set_up(server: &RedisServer) -> (LockManager, Recorder<'_>) {
    let (locks, mut recorder) = (manager(server).await, server.record());
    // The first cycle may start tasks that the later cycles find running.
    cycle(&locks, "before").await;
    recorder.take();
    (locks, recorder)
}

#[tokio::test]
async fn an_uncontended_cycle_is_one_set_and_one_script() {
    let server = RedisServer::start();
    let (locks, mut recorder) = set_up(&server).await;
    cycle(&locks, "k").await;
    let commands = sent(&mut recorder);
    assert_eq!(names(&commands), ["SET", "EVALSHA"], "{commands:?}");
    let [set, release] = commands.as_slice() else { unreachable!("there are two") };
    assert_eq!((set.arguments[0].as_str(), &set.arguments[2..]), ("k", &own(&["NX", "PX", "60000"])[..]));
    assert_eq!(&release.arguments[1..3], ["1", "k"]);
    let token = &release.arguments[3];
    assert!(set.arguments[1].starts_with(token.as_str()), "released by the token that took it");
}

#[tokio::test]
async fn a_body_under_a_lock_costs_no_more() {
    let server = RedisServer::start();
    let (locks, mut recorder) = set_up(&server).await;
    assert_eq!(locks.lock("k").run(async { 42 }).await.expect("the key is free"), 42);
    assert_eq!(names(&sent(&mut recorder)), ["SET", "EVALSHA"]);
}

#[tokio::test]
async fn a_fencing_token_comes_with_the_grant_for_nothing() {
    let server = RedisServer::start();
    let (locks, mut recorder) = set_up(&server).await;
    let guard = locks.lock("k").fencing(true).acquire().await.expect("the key is free");
    assert!(guard.fencing_token().await.expect("it came with the grant").get() > 0);
    guard.release().await.expect("an answer");
    assert_eq!(names(&sent(&mut recorder)), ["EVALSHA", "EVALSHA"]);
}

#[tokio::test]
async fn a_fencing_token_on_demand_is_asked_for_once() {
    let server = RedisServer::start();
    let (locks, mut recorder) = set_up(&server).await;
    let guard = try_once(&locks, "k").await.expect("the key is free");
    assert_eq!(names(&sent(&mut recorder)), ["SET"]);
    let token = guard.fencing_token().await.expect("the lock is held");
    assert_eq!(names(&sent(&mut recorder)), ["EVALSHA"]);
    assert_eq!(guard.fencing_token().await.expect("it is known"), token);
    assert_eq!(guard.handle().fencing_token().await.expect("it is known"), token);
    assert_eq!(names(&sent(&mut recorder)), [""; 0]);
    guard.release().await.expect("an answer");
    assert_eq!(names(&sent(&mut recorder)), ["EVALSHA"]);
}

#[distributed_lock(key = "order:<id>", ttl = "60s", strategy = "fail_fast", manager = locks)]
async fn pay(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    book(locks, id).await
}

#[distributed_lock(key = "order:<id>", ttl = "60s", strategy = "fail_fast", manager = locks)]
async fn book(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::test]
async fn a_nested_call_enters_again_without_a_word_to_the_server() {
    let server = RedisServer::start();
    let (locks, mut recorder) = set_up(&server).await;
    assert_eq!(pay(&locks, 7).await.expect("the key is free"), 7);
    let commands = sent(&mut recorder);
    assert_eq!(names(&commands), ["SET", "EVALSHA"], "{commands:?}");
    assert_eq!(commands[0].arguments[0], "order:7");
    assert!(server.keys().is_empty());
}

fn own(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
