//! Tests of environment variables. Each test runs in its own process, because only unsafe code can change the variables
//! of this process.

use std::process::Command;

use lock_core::{LockManager, backend::memory::Memory};

use crate::{File, millis};

/// The variable with the path of the file that the child process reads.
const FILE: &str = "TEST_CONFIG_FILE";

/// The variable that marks the child process. The tested variables are set there.
const CHILD: &str = "TEST_CONFIG_CHILD";

/// Returns whether this is the child process, which has the variables. Otherwise runs the test `name` in a child
/// process that has them.
fn is_child(name: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").envs(variables.iter().copied());
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
    false
}

#[tokio::test(start_paused = true)]
async fn a_variable_counts_before_the_file() {
    let file = File::new("[profile.pay]\nttl = \"1s\"\nstrategy = \"fail_fast\"");
    let path = file.path().display().to_string();
    let variables =
        [(FILE, path.as_str()), ("LOCK_PROFILE_PAY_TTL", "500ms"), ("LOCK_PROFILE_NIGHTLY_TTL", "3s")];
    if !is_child("environment::a_variable_counts_before_the_file", &variables) {
        return;
    }
    let path = std::env::var(FILE).expect("the parent set it");
    let locks = LockManager::builder(Memory::new()).config(path).build().unwrap();
    let guard = locks.lock("a").profile("pay").acquire().await.unwrap();
    assert_eq!(guard.remaining(), millis(498), "the variable");
    let refused = locks.lock("a").profile("pay").acquire().await.unwrap_err();
    assert!(refused.is_contended() && refused.waited().unwrap_or_default().is_zero(), "the file: {refused}");
    let nightly = locks.lock("b").profile("nightly").acquire().await.unwrap();
    assert_eq!(nightly.remaining(), millis(2_998), "only the variable");
    // The variables also count if there is no file.
    let locks = LockManager::builder(Memory::new()).config_from_env().build().unwrap();
    assert_eq!(locks.lock("b").profile("nightly").acquire().await.unwrap().remaining(), millis(2_998));
}

#[test]
fn a_bad_variable_is_an_error_with_its_name() {
    let name = "environment::a_bad_variable_is_an_error_with_its_name";
    if !is_child(name, &[("LOCK_PROFILE_PAY_TLL", "500ms")]) {
        return;
    }
    let error = LockManager::builder(Memory::new()).config_from_env().build().unwrap_err().to_string();
    assert!(error.contains("LOCK_PROFILE_PAY_TLL: it ends with no option"), "{error}");
    assert!(error.contains("did you mean `LOCK_PROFILE_PAY_TTL`?; options: `KIND`, `PERMITS`"), "{error}");
    let without = LockManager::builder(Memory::new()).build();
    assert!(without.is_ok(), "who asks for no configuration reads no variables");
}
