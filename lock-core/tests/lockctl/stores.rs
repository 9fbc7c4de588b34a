//! Runs the commands on each store.
#![allow(clippy::print_stderr, reason = "it names the cases that failed")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lock_tests::PostgresServer;
use rustix::process::Signal;

use crate::bed::Bed;
use crate::cases::{CASES, many_at_once_run_one_at_a_time};
use crate::ctl::{Ctl, until};
use crate::loss;

/// The number of cases that run at the same time. Most of them wait for the end of a lease.
const AT_ONCE: usize = 3;

/// Runs all cases on a store.
fn works(bed: &Bed) {
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, case)) = CASES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if catch_unwind(AssertUnwindSafe(|| case(bed, name))).is_err() {
                        eprintln!("failed: {name}");
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    others_work(bed);
    many_at_once_run_one_at_a_time(bed);
    loss::a_store_that_is_away_ends_the_command(bed, "away");
    assert_eq!(failed.into_inner(), 0, "cases have failed");
}

/// If no one reads the token, no one can release the lock.
fn an_unread_token_is_given_back(ctl: &Ctl) {
    let acquire = format!("{} acquire unread --ttl 1h --no-wait > /dev/full", env!("CARGO_BIN_EXE_lockctl"));
    let status = ctl.program("sh").args(["-c", &acquire]).status().expect("a shell");
    assert_eq!(status.code(), Some(141));
    ctl.until_held("unread", 0);
}

/// Runs commands that `CASES` does not test, such as `hold` and `leader`, once on the store.
fn others_work(bed: &Bed) {
    let ctl = &bed.ctl;
    let said = ctl.run(&["ping"]);
    assert!(said.code == 0 && said.out.contains("answered in"), "{said:?}");
    let held = ctl.start(&["hold", "job", "--label", "night"]);
    ctl.until_held("job", 1);
    let said = ctl.run(&["list"]);
    assert!(said.out.contains("night"), "{said:?}");
    let waits = ctl.start(&["run", "job", "--", "sh", "-c", "exit 6"]);
    ctl.until_waited_for("job", 1);
    assert_eq!(ctl.run(&["force-release", "job", "--reason", "stuck", "--yes"]).code, 0);
    let said = held.end();
    assert_eq!(said.code, 76, "{said:?}");
    let said = waits.end();
    assert_eq!(said.code, 6, "{said:?}");
    let said = ctl.run(&["wait", "job"]);
    assert_eq!(said.code, 0, "{said:?}");

    let command = "trap 'exit 8' TERM; while :; do sleep 0.05; done";
    let leads = ctl.start(&["leader", "boss", "--label", "one", "--", "sh", "-c", command]);
    until("it leads", || ctl.run(&["leader", "boss"]).out.contains("one"));
    leads.signal(Signal::TERM);
    let said = leads.end();
    // The exit code is 143 if the signal arrived before the shell had set its trap.
    assert!([8, 143].contains(&said.code), "{said:?}");
    until("nobody leads", || ctl.run(&["leader", "boss"]).code == 1);
}

/// Checks that a script can acquire, renew and release a lock with a token.
fn tokens_work(ctl: &Ctl) {
    let said = ctl.run(&["acquire", "script", "--ttl", "10s", "--label", "by hand"]);
    assert_eq!(said.code, 0, "{said:?}");
    let token = said.out.trim();
    assert!(ctl.run(&["list"]).out.contains("by hand"));
    assert_eq!(ctl.run(&["run", "script", "-n", "--", "true"]).code, 75);
    let waits = ctl.start(&["run", "script", "--", "true"]);
    ctl.until_waited_for("script", 1);
    let said = ctl.run(&["renew", "script", "--ttl", "1h", "--token", token, "--json"]);
    let renewed: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(renewed["remaining_ms"].as_u64() > Some(3_000_000), "{said:?}");
    // A renewal with a shorter ttl does not shorten the lease.
    let said = ctl.run(&["renew", "script", "--ttl", "10s", "--token", token]);
    assert_eq!(said.code, 0, "{said:?}");
    let shown = ctl.run(&["show", "script", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).expect("JSON");
    assert!(shown["holders"][0]["remaining_ms"].as_u64() > Some(3_000_000), "{shown}");
    let said = ctl.run(&["release", "script", "--token", token]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(waits.end().code, 0);
    assert_eq!(ctl.run(&["release", "script", "--token", token]).code, 1, "it is released");

    // This lock expires, because its token is not renewed.
    let said = ctl.run(&["acquire", "script", "--ttl", "2s", "-n"]);
    let late = ["renew", "script", "--ttl", "2s", "--token", said.out.trim()];
    assert_eq!(ctl.run(&["run", "script", "--", "true"]).code, 0);
    let said = ctl.run(&late);
    assert_eq!(said.code, 76, "{said:?}");
}

fn tokens_are_refused(ctl: &Ctl) {
    let said = ctl.run(&["acquire", "script", "--ttl", "20s"]);
    assert!(said.code == 64 && said.err.contains("ends with the session"), "{said:?}");
    let said = ctl.run(&["list"]);
    assert!(!said.out.contains("script"), "{said:?}");
}

#[test]
fn redis() {
    let _alone = Bed::alone();
    let bed = Bed::redis();
    tokens_work(&bed.ctl);
    an_unread_token_is_given_back(&bed.ctl);
    works(&bed);
}

#[test]
fn postgres() {
    let _alone = Bed::alone();
    let bed = Bed::postgres();
    tokens_work(&bed.ctl);
    an_unread_token_is_given_back(&bed.ctl);
    works(&bed);
}

#[test]
fn etcd() {
    let _alone = Bed::alone();
    let bed = Bed::etcd();
    tokens_work(&bed.ctl);
    an_unread_token_is_given_back(&bed.ctl);
    works(&bed);
}

#[test]
fn zookeeper() {
    let _alone = Bed::alone();
    let bed = Bed::zookeeper();
    tokens_are_refused(&bed.ctl);
    works(&bed);
}

#[test]
fn the_tables_of_postgres_are_made_on_demand() {
    let server = PostgresServer::start();
    // This URL lacks `migrate=true`.
    let ctl = Ctl(server.url().split('?').next().expect("a URL").to_owned());
    assert_eq!(ctl.run(&["list"]).code, 77, "no tables yet");
    let said = ctl.run(&["migrate"]);
    assert_eq!(said.code, 0, "{said:?}");
    let said = ctl.run(&["list"]);
    assert_eq!(said.code, 0, "{said:?}");
}
