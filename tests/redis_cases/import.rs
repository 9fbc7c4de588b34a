//! Runs the example `import_worker` while fifty of its workers are killed.

use std::time::Duration;

use lock_tests::{Directory, RedisServer};

use crate::cases::Program;
use crate::cases::import::{IMPORT, Tables};

/// Runs eight workers for four groups, so that one worker works at each group and one waits. Returns whether the
/// program succeeded, and the contents of its tables.
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
async fn import(arguments: &[&str]) -> (bool, Tables) {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let table = directory.path().join("table").display().to_string();
    let usual = ["--workers", "8", "--groups", "4"];
    let program = Program::start(IMPORT, &[&usual, arguments].concat(), &server.url(), &table);
    let (status, printed) = program.ended().await;
    println!("{printed}");
    (status.success(), Tables::read(&table))
}

#[tokio::test]
async fn workers_that_are_killed_stop_nobody_for_longer_than_a_ttl() {
    let crashes = ["--crashes", "50", "--crash-every", "0.25"];
    let (content, tables) =
        import(&[&crashes[..], &["--tasks", "8", "--lines", "120", "--line", "0.02", "--ttl", "1"]].concat())
            .await;
    assert_eq!(tables.crashes(), 50);
    tables.check_once().unwrap_or_else(|wrong| panic!("{wrong}"));
    // If a waiting process dies and is granted the lock, it costs one more lease.
    tables.check_standstills(Duration::from_secs(5));
    assert!(content);
}

/// The arguments for workers that stop themselves for longer than the ttl, directly before they write.
const STALLS: [&str; 8] = ["--ttl", "0.5", "--stall-every", "60", "--tasks", "2", "--lines", "100"];

#[tokio::test]
async fn workers_that_are_stopped_before_they_write_are_refused() {
    let (content, tables) = import(&STALLS).await;
    tables.check_once().unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(content);
}

/// These are the negative controls: the lock without the comparison of its token, and no lock at all.
#[tokio::test]
async fn double_work_is_found_out() {
    let (content, tables) = import(&[&STALLS[..], &["--without", "fence"]].concat()).await;
    let wrong = tables.check_once().expect_err("a worker that was stopped goes on");
    assert!(wrong.contains("imported twice") && !content, "{wrong}");
    let (content, tables) = import(&["--without", "lock"]).await;
    let wrong = tables.check_once().expect_err("two work at one group");
    assert!(wrong.contains("imported twice") && !content, "{wrong}");
}
