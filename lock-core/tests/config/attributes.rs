//! Tests that the manager finds the profiles that the attributes of this program name, even if no code calls the
//! function.

use std::fmt::Debug;

use lock_core::{LockError, LockErrorKind, LockManager, distributed_lock};

use crate::{File, label, millis};

#[distributed_lock(key = "order:<id>", profile = "checkout")]
async fn pay(id: u64) -> Result<(u64, LockManager), LockError> {
    tokio::time::sleep(millis(100)).await;
    Ok((id, LockManager::current()?))
}

/// No code calls these functions.
#[allow(dead_code)]
mod uncalled {
    use super::*;

    #[distributed_lock(keys = ["a:<id>", "b:<id>"], profile = "both")]
    async fn several(id: u64) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "any", profile = "generic")]
    async fn of_any<T: Debug>(value: T) -> Result<T, LockError> {
        Ok(value)
    }

    struct Shop;

    impl Shop {
        #[distributed_lock(key = "shop", profile = "method", kind = "read")]
        async fn open(&self) -> Result<(), LockError> {
            Ok(())
        }
    }

    #[distributed_lock(key = "report", profile = "report", take = 3)]
    async fn of_a_semaphore() -> Result<(), LockError> {
        Ok(())
    }

    trait Opens {
        #[distributed_lock(key = "opens", profile = "in_a_trait")]
        async fn open(&self) -> Result<(), LockError> {
            Ok(())
        }
    }
}

const PROFILES: [&str; 5] = ["checkout", "both", "generic", "method", "in_a_trait"];

/// The profile that the function `of_a_semaphore` names.
const SEMAPHORE: &str = "[profile.report]\nkind = \"semaphore\"\npermits = 3\n";

fn text() -> String {
    PROFILES.map(|name| format!("[profile.{name}]\nttl = \"1s\"\n")).concat() + SEMAPHORE
}

#[test]
fn every_profile_that_an_attribute_names_is_found() {
    let file = File::new(&text());
    file.manager().unwrap().validate_attributes().unwrap();

    let error = LockManager::in_memory().validate_attributes().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    let error = error.to_string();
    for (name, function) in [
        ("checkout", "config::attributes::pay"),
        ("both", "config::attributes::uncalled::several"),
        ("generic", "config::attributes::uncalled::of_any"),
        ("method", "config::attributes::uncalled::open"),
        ("in_a_trait", "config::attributes::uncalled::open"),
    ] {
        let named = format!("`{name}` is not there");
        assert!(error.contains(&named) && error.contains(&format!("named by `{function}`")), "{error}");
    }
    assert!(error.contains("tests/config/attributes.rs:10)"), "{error}");

    file.write(&text().replace("checkout", "chekout"));
    let error = file.manager().unwrap().validate_attributes().unwrap_err().to_string();
    assert!(error.contains("; did you mean `chekout`? (named by"), "{error}");
    assert!(!error.contains("`generic`"), "{error}");
}

#[test]
fn several_keys_need_a_profile_with_one_holder() {
    let file = File::new(&format!(
        "{}kind = \"fair\"",
        text().replace("[profile.both]\nttl = \"1s\"\n", "") + "[profile.both]\n"
    ));
    let error = file.manager().unwrap().validate_attributes().unwrap_err().to_string();
    assert!(error.contains("profile `both`: ") && error.contains("uncalled::several"), "{error}");
    assert!(error.contains("kind is fair, but several keys have one holder each"), "{error}");
}

/// Both the check and a reload find the error. The reload then changes nothing.
#[test]
fn what_a_call_would_refuse_is_found_before() {
    let cases = [
        ("[profile.both]\n", "[profile.both]\nkind = \"read\"\n", "kind is read, but several keys"),
        ("permits = 3", "permits = 2", "take is 3, and the semaphore has 2 permits"),
    ];
    for (good, bad, says) in cases {
        let file = File::new(&text());
        let locks = file.manager().unwrap();
        file.write(&text().replace(good, bad));
        let error = locks.reload().unwrap_err().to_string();
        assert!(error.contains("nothing was reloaded") && error.contains(says), "{error}");
        locks.validate_attributes().expect("nothing changed");
        let error = file.manager().unwrap().validate_attributes().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let both = text()
        .replace("[profile.both]\n", "[profile.both]\nkind = \"fair\"\n")
        .replace("permits = 3", "permits = 2");
    let error = File::new(&both).manager().unwrap().validate_attributes().unwrap_err().to_string();
    assert!(error.contains("kind is fair") && error.contains("take is 3"), "all at once: {error}");
}

#[test]
fn an_attribute_that_takes_permits_needs_a_profile_that_has_them() {
    for (semaphore, says) in [
        ("kind = \"semaphore\"\npermits = 2", "take is 3, and the semaphore has 2 permits"),
        ("kind = \"fair\"", "take is 3, and a lock of kind fair has no permits"),
    ] {
        let file = File::new(&text().replace(SEMAPHORE, &format!("[profile.report]\n{semaphore}\n")));
        let error = file.manager().unwrap().validate_attributes().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        let error = error.to_string();
        assert!(error.contains("profile `report`: ") && error.contains(says), "{error}");
        assert!(error.contains("uncalled::of_a_semaphore"), "{error}");
    }
}

#[test]
fn a_reload_keeps_what_attributes_name() {
    let file = File::new(&(text() + "[profile.unused]"));
    let locks = file.manager().unwrap();
    file.write(&text().replace("checkout", "chekout"));
    let error = locks.reload().unwrap_err().to_string();
    assert!(
        error.contains("nothing was reloaded: profile `checkout` is not there")
            && error.contains("attributes::pay"),
        "{error}"
    );
    locks.validate(["checkout", "unused"]).expect("nothing changed");
    file.write(&text());
    locks.reload().expect("nothing names the other");
    locks.validate(["unused"]).unwrap_err();
}

/// The attribute has only a key and a profile, so all options are from the profile.
#[tokio::test(start_paused = true)]
async fn an_attribute_has_all_from_its_profile() {
    let file = File::new("[profile.checkout]\nkind = \"semaphore\"\npermits = 2\nstrategy = \"fail_fast\"");
    let locks = file.manager().unwrap();
    let paying = |id| tokio::spawn(locks.scope(pay(id)));
    let three = [paying(7), paying(7), paying(7)];
    tokio::time::sleep(millis(50)).await;
    let info = locks.inspect("order:7").await.unwrap().expect("two hold it");
    assert_eq!(info.holding, 2);
    assert_eq!(label(&info), Some("config::attributes::pay"), "the path of the function");
    let mut refused = 0;
    for one in three {
        refused += usize::from(one.await.unwrap().is_err_and(|error| error.is_contended()));
    }
    assert_eq!(refused, 1);

    file.write("[profile.checkout]\nlabel = \"checkout\"\nwait = \"1s\"");
    locks.reload().unwrap();
    let three = [paying(8), paying(8), paying(8)];
    tokio::time::sleep(millis(50)).await;
    let info = locks.inspect("order:8").await.unwrap().expect("one holds it");
    assert_eq!((info.holding, label(&info)), (1, Some("checkout")));
    for one in three {
        one.await.unwrap().expect("they take turns");
    }
}
