//! Tests of a reload: a changed profile affects the next call, and a file with a mistake changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::backend::memory::Memory;
use lock_core::{Kind, LockErrorKind, LockManager, Profile};
use tokio::time::Instant;

use crate::{File, label, millis};

#[tokio::test(start_paused = true)]
async fn the_next_request_has_what_the_file_says_now() {
    let file = File::new("[profile.pay]\nttl = \"1s\"\nstrategy = \"fail_fast\"");
    let locks = file.manager().unwrap();
    let request = || locks.lock("k").profile("pay");
    let held = request().acquire().await.unwrap();
    assert_eq!(held.remaining(), millis(998));
    assert_eq!(request().acquire().await.unwrap_err().kind(), LockErrorKind::Contended);

    // A request uses the profile as it is when the request is sent, not when the request was made.
    let made_before = request();
    file.write("[profile.pay]\nttl = \"200ms\"\nstrategy = \"retry\"\nwait = \"70ms\"");
    locks.reload().unwrap();
    let start = Instant::now();
    assert!(made_before.acquire().await.unwrap_err().is_timed_out());
    assert!((millis(70)..millis(90)).contains(&start.elapsed()), "{:?}", start.elapsed());
    held.release().await.unwrap();
    assert_eq!(request().acquire().await.unwrap().remaining(), millis(198));
    assert_eq!(
        request().ttl(millis(90)).acquire().await.unwrap().remaining(),
        millis(88),
        "the request says so"
    );
}

#[tokio::test(start_paused = true)]
async fn a_configuration_with_a_mistake_changes_nothing() {
    let good = "[profile.pay]\nttl = \"1s\"\n[profile.ship]\nttl = \"2s\"";
    let file = File::new(good);
    let locks = file.manager().unwrap();
    for (bad, part) in [
        ("[profile.pay]\nttl = \"3s\"\n[profile.ship]\nttl = 2", ":4: "),
        ("[profile.pay]\nttl = \"3s\"\nwait = \"1s\"\nstrategy = \"skip\"", ":3: profile `pay`: wait is 1s"),
        ("[profile.pay", ":1: "),
    ] {
        file.write(bad);
        let error = locks.reload().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        let text = error.to_string();
        assert!(text.contains(part) && text.contains(&file.path().display().to_string()), "{text}");
    }
    std::fs::remove_file(file.path()).unwrap();
    let error = locks.reload().unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    for (name, ttl) in [("pay", 998), ("ship", 1_998)] {
        assert_eq!(
            locks.lock(name).profile(name).acquire().await.unwrap().remaining(),
            millis(ttl),
            "{name}"
        );
    }
    file.write(good);
    locks.reload().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_with_a_bad_file_is_not_built() {
    let file = File::new("[profile.pay]\ntll = \"1s\"");
    let error = file.manager().unwrap_err().to_string();
    assert!(error.contains(":2: unknown option `tll`; did you mean `ttl = \"500ms\"`?"), "{error}");
    let none = LockManager::in_memory();
    none.reload().expect("there is nothing to read");
}

#[tokio::test(start_paused = true)]
async fn a_profile_has_its_kind_where_the_request_names_none() {
    let file = File::new("[profile.pool]\nkind = \"semaphore\"\npermits = 2");
    let locks =
        file.builder().profile("pool", Profile::new().kind(Kind::Fair).ttl(millis(500))).build().unwrap();
    let request = || locks.request("k", None).profile("pool");
    let (one, two) = (request().acquire().await.unwrap(), request().acquire().await.unwrap());
    assert_eq!(one.remaining(), millis(498), "the ttl of the program");
    assert!(request().try_acquire().await.unwrap().is_none());
    drop((one, two));
    // The next two requests name their kind, which overrides the kind of the profile.
    let (one, two) = (locks.lock("l").profile("pool"), locks.request("m", Kind::Read).profile("pool"));
    let (_one, _two) = (one.acquire().await.unwrap(), two.acquire().await.unwrap());
    assert!(locks.lock("l").try_acquire().await.unwrap().is_none());
    assert!(locks.read("m").try_acquire().await.unwrap().is_some());
    // Without a profile and without a kind, the lock has one holder, which may enter its own lock again.
    let _alone = locks.request("n", None).acquire().await.unwrap();
    assert!(locks.lock("n").try_acquire().await.unwrap().is_none());
    let error = locks.all(["a", "b"]).profile("pool").acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("semaphore(2), but several keys have one holder each"), "{error}");

    file.write("[profile]");
    locks.reload().unwrap();
    let _fair = locks.request("o", None).profile("pool").acquire().await.expect("the program has it too");
}

#[tokio::test(start_paused = true)]
async fn a_body_ends_as_its_profile_says() {
    let file = File::new("[profile.p]\nttl = \"100ms\"\nrenew = false\non_lost = \"finish\"");
    let locks = file.manager().unwrap();
    let ends = |locks: &LockManager| {
        let ended = Arc::new(AtomicBool::new(false));
        let (there, locks) = (Arc::clone(&ended), locks.clone());
        async move {
            let body = async move {
                tokio::time::sleep(millis(300)).await;
                there.store(true, Ordering::SeqCst);
            };
            let outcome = locks.lock("k").profile("p").run(body).await;
            assert_eq!(outcome.unwrap_err().kind(), LockErrorKind::Lost);
            ended.load(Ordering::SeqCst)
        }
    };
    assert!(ends(&locks).await, "it finishes");
    file.write("[profile.p]\nttl = \"100ms\"\nrenew = false");
    locks.reload().unwrap();
    assert!(!ends(&locks).await, "it is cancelled");
}

#[tokio::test(start_paused = true)]
async fn what_else_a_profile_says_is_done() {
    let text = "[profile.p]\nmax_waiters = 1\nwait = \"1s\"\nmin_hold = \"5s\"\nlabel = \"from the file\"\nreentrant = false";
    let locks = File::new(text).manager().unwrap();
    let request = || locks.lock("k").profile("p");
    let guard = request().acquire().await.unwrap();
    let info = locks.inspect("k").await.unwrap().expect("it is held");
    assert_eq!(label(&info), Some("from the file"));
    let waiting = tokio::spawn(request().acquire());
    tokio::task::yield_now().await;
    assert_eq!(request().acquire().await.unwrap_err().kind(), LockErrorKind::Overloaded);
    let nested = guard.run(request().acquire()).await.unwrap();
    assert_eq!(nested.unwrap_err().kind(), LockErrorKind::Reentered);
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap_err().is_timed_out(), "it is kept for 5 s");
}

/// Many tasks send requests while the profile changes. Each request sees one state, never a mix of both.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_never_sees_a_part_of_two_states() {
    let states = [
        "[profile.p]\nstrategy = \"skip\"\nttl = \"1s\"",
        "[profile.p]\nstrategy = \"retry\"\nwait = \"1s\"\nttl = \"2s\"",
    ];
    let file = File::new(states[0]);
    let locks = file.manager().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let (locks, done) = (locks.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    // If `skip` came with the `wait` of the other state, the check would refuse it.
                    locks.lock("k").profile("p").check().unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for turn in 0..200 {
        file.write(states[turn % 2]);
        locks.reload().unwrap();
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::Relaxed);
    for task in asking {
        task.await.unwrap();
    }
}

/// A reload may happen after the file was truncated and before its new text is written.
#[tokio::test(start_paused = true)]
async fn a_file_that_lost_all_profiles_changes_nothing_unless_it_says_so() {
    let file = File::new("[profile.pay]\nttl = \"1s\"");
    let locks = file.manager().unwrap();
    for empty in ["", "# nothing yet\n"] {
        file.write(empty);
        let text = locks.reload().unwrap_err().to_string();
        assert!(text.contains("may be half written") && text.contains("`[profile]`"), "{text}");
        assert!(locks.profile("pay").is_ok(), "it is in force");
    }
    file.write("[profile]\n");
    locks.reload().unwrap();
    assert!(locks.profile("pay").is_err(), "the file says that there is none");
    file.write("");
    locks.reload().unwrap();
}

#[test]
fn a_configuration_is_a_regular_file_that_a_person_has_written() {
    let of = |path: &str| LockManager::builder(Memory::new()).config(path).build().map(drop);
    let text = of("/dev/zero").unwrap_err().to_string();
    assert!(text.contains("`/dev/zero`") || text.contains("/dev/zero cannot be read"), "{text}");
    assert!(text.contains("no regular file"), "{text}");
    let file = File::new(&"# a line\n".repeat(200_000));
    let text = of(&file.path().display().to_string()).unwrap_err().to_string();
    assert!(text.contains("longer than 1 MiB"), "{text}");
    // Each mistake is reported on its own line.
    let lines: Vec<String> = (0..2_000).map(|number| format!("wrong{number} = 1\n")).collect();
    file.write(&lines.concat());
    let text = of(&file.path().display().to_string()).unwrap_err().to_string();
    assert!(text.contains(":2: "), "{}", &text[..200]);
}
