//! The effect of each option on the lock.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::strategy::{Backoff, Contention, Decision, FailFast, Strategy, fail_fast};
use lock_core::{Kind, LockError, LockErrorKind, LockManager, LossReason, Profile, distributed_lock};

use crate::support::{hold, is_held};

static LOCKS: LazyLock<LockManager> = LazyLock::new(LockManager::in_memory);

fn locks() -> LockManager {
    LOCKS.clone()
}

#[distributed_lock(key = "from a function", manager = locks())]
async fn manager_from_a_function() -> Result<bool, LockError> {
    Ok(is_held(&LOCKS, "from a function").await)
}

#[distributed_lock(key = "from a static", manager = LOCKS)]
async fn manager_from_a_static() -> Result<bool, LockError> {
    Ok(is_held(&LOCKS, "from a static").await)
}

#[distributed_lock(key = "from an arc", manager = locks)]
async fn manager_from_an_arc(locks: Arc<LockManager>) -> Result<bool, LockError> {
    Ok(is_held(&locks, "from an arc").await)
}

#[distributed_lock(key = "from an expression", manager = if first { &a } else { &b })]
async fn manager_from_an_expression(
    a: LockManager,
    b: LockManager,
    first: bool,
) -> Result<(bool, bool), LockError> {
    Ok((is_held(&a, "from an expression").await, is_held(&b, "from an expression").await))
}

#[tokio::test]
async fn a_manager_is_whatever_derefs_to_one() {
    assert!(manager_from_a_function().await.unwrap());
    assert!(manager_from_a_static().await.unwrap());
    let (a, b) = (LockManager::in_memory(), LockManager::in_memory());
    assert!(manager_from_an_arc(Arc::new(a.clone())).await.unwrap());
    assert_eq!(manager_from_an_expression(a.clone(), b.clone(), true).await.unwrap(), (true, false));
    assert_eq!(manager_from_an_expression(a, b, false).await.unwrap(), (false, true));
}

/// Counts how often its value is rendered.
struct Counted<'a>(&'a AtomicUsize);

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a/{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[distributed_lock(key = "a<<b:<counted>", manager = locks, handle = lock, wait = "10s")]
async fn rendered(locks: &LockManager, counted: Counted<'_>) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[tokio::test(start_paused = true)]
async fn the_key_is_rendered_once_and_its_values_are_encoded() {
    let locks = LockManager::in_memory();
    let held = hold(&locks, "a<b:a%2F0").await;
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        held.release().await
    });
    let renderings = AtomicUsize::new(0);
    // The call waits for two seconds and tries many times, but renders its key once.
    assert_eq!(rendered(&locks, Counted(&renderings)).await.unwrap(), "a<b:a%2F0");
    assert_eq!(renderings.load(Ordering::Relaxed), 1);
}

static STRATEGIES: AtomicUsize = AtomicUsize::new(0);

fn counted_strategy() -> FailFast {
    STRATEGIES.fetch_add(1, Ordering::Relaxed);
    fail_fast()
}

#[distributed_lock(key = "k", strategy = counted_strategy(), manager = locks)]
async fn own_strategy(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_strategy_that_is_an_expression_is_evaluated_for_each_call() {
    let locks = LockManager::in_memory();
    own_strategy(&locks).await.unwrap();
    let held = hold(&locks, "k").await;
    assert!(own_strategy(&locks).await.unwrap_err().is_contended());
    drop(held);
    assert_eq!(STRATEGIES.load(Ordering::Relaxed), 2);
}

#[distributed_lock(key = "ttl", ttl = "1m 30s", handle = lock, manager = locks)]
async fn remaining(locks: &LockManager) -> Result<Duration, LockError> {
    Ok(lock.remaining())
}

#[tokio::test(start_paused = true)]
async fn the_ttl_is_that_of_the_lease() {
    let remaining = remaining(&LockManager::in_memory()).await.unwrap();
    assert!(remaining > Duration::from_secs(85) && remaining <= Duration::from_secs(90), "{remaining:?}");
}

#[distributed_lock(key = "label", manager = locks)]
async fn r#labelled(locks: &LockManager) -> Result<String, LockError> {
    let request = locks.lock("label").strategy(fail_fast());
    let error = tokio::spawn(request.acquire()).await.expect("the asker ran").expect_err("held");
    Ok(error.to_string())
}

#[tokio::test]
async fn the_owner_record_says_which_function() {
    let told = labelled(&LockManager::in_memory()).await.unwrap();
    assert!(told.contains("options::labelled"), "{told}");
}

/// Returns the error of a request from another task. Its text contains the record of the holder of the key.
async fn holder(locks: &LockManager) -> Result<String, LockError> {
    let request = locks.lock("label").strategy(fail_fast());
    let error = tokio::spawn(request.acquire()).await.expect("the asker ran").expect_err("held");
    Ok(error.to_string())
}

struct Shop<T>(T);

trait Till {
    async fn book(&self, locks: &LockManager) -> Result<String, LockError>;
}

impl<T> Shop<T> {
    #[distributed_lock(key = "label", manager = locks)]
    async fn pay<U: Send>(&self, _: U, locks: &LockManager) -> Result<String, LockError> {
        holder(locks).await
    }

    #[distributed_lock(key = "label", manager = locks, strategy = "skip", handle = lock)]
    async fn open(locks: &LockManager) -> Result<Option<String>, LockError> {
        let _ = &lock;
        holder(locks).await.map(Some)
    }
}

impl Till for Shop<u8> {
    #[distributed_lock(key = "label", manager = locks)]
    async fn book(&self, locks: &LockManager) -> Result<String, LockError> {
        holder(locks).await
    }
}

#[tokio::test]
async fn the_label_of_a_method_names_its_type() {
    let locks = LockManager::in_memory();
    for (told, path) in [
        (Shop("").pay(7, &locks).await, "options::Shop<_>::pay"),
        (Shop::<u8>::open(&locks).await.map(Option::unwrap), "options::Shop<_>::open"),
        (Shop(7).book(&locks).await, "options::Shop<u8> as attribute::options::Till>::book"),
    ] {
        let told = told.unwrap();
        assert!(told.contains(path), "{told}");
        assert!(!told.contains("__lock") && !told.contains("closure"), "{told}");
    }
}

#[distributed_lock(key = "label", label = "pay", manager = locks)]
async fn relabelled(locks: &LockManager) -> Result<String, LockError> {
    let request = locks.lock("label").strategy(fail_fast());
    let error = tokio::spawn(request.acquire()).await.expect("the asker ran").expect_err("held");
    Ok(error.to_string())
}

#[tokio::test]
async fn a_label_takes_the_place_of_the_name_of_the_function() {
    let told = relabelled(&LockManager::in_memory()).await.unwrap();
    assert!(told.contains("pay") && !told.contains("options::relabelled"), "{told}");
}

#[distributed_lock(key = "crowd", strategy = "wait", max_waiters = 1, manager = locks)]
async fn crowd(locks: LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "crowd", max_waiters = most, manager = locks)]
async fn crowd_of(locks: &LockManager, most: usize) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_waiter_too_many_is_refused() {
    let locks = LockManager::in_memory();
    let held = hold(&locks, "crowd").await;
    let waits = tokio::spawn(crowd(locks.clone()));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let second = tokio::time::timeout(Duration::from_secs(60), crowd(locks.clone())).await;
    assert_eq!(second.expect("it does not wait").unwrap_err().kind(), LockErrorKind::Overloaded);
    assert_eq!(crowd_of(&locks, 1).await.unwrap_err().kind(), LockErrorKind::Overloaded);
    assert_eq!(crowd_of(&locks, 2).await.unwrap_err().kind(), LockErrorKind::TimedOut);
    held.release().await.unwrap();
    waits.await.unwrap().unwrap();
}

#[distributed_lock(key = "stuck", max_hold = "3s", manager = locks)]
async fn stuck(locks: &LockManager) -> Result<(), LockError> {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_body_that_hangs_loses_the_lock_at_max_hold() {
    let locks = LockManager::in_memory();
    let lost = tokio::time::timeout(Duration::from_secs(60), stuck(&locks)).await;
    let lost = lost.expect("it does not hang for ever").unwrap_err();
    assert_eq!(lost.loss_reason(), Some(LossReason::MaxHold));
}

#[distributed_lock(key = "nightly", min_hold = "1m", strategy = "skip", manager = locks)]
async fn nightly(locks: &LockManager) -> Result<Option<()>, LockError> {
    Ok(Some(()))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_early_keeps_the_key_for_min_hold() {
    let locks = LockManager::in_memory();
    assert_eq!(nightly(&locks).await.unwrap(), Some(()));
    assert_eq!(nightly(&locks).await.unwrap(), None);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(nightly(&locks).await.unwrap(), None);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(nightly(&locks).await.unwrap(), Some(()));
}

#[distributed_lock(key = "lingers", linger = "50ms", manager = locks)]
async fn lingering(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_lingers_for_as_long_as_the_attribute_says() {
    let locks = LockManager::in_memory();
    lingering(&locks).await.unwrap();
    tokio::time::sleep(Duration::from_millis(49)).await;
    assert!(locks.is_locked("lingers").await.unwrap());
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert!(!locks.is_locked("lingers").await.unwrap());
}

#[distributed_lock(key = "leaves", linger = "0s", manager = locks)]
async fn leaving(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_attribute_switches_the_linger_of_its_manager_off() {
    let locks = LockManager::builder(Memory::new()).linger(Duration::from_millis(50)).build().unwrap();
    leaving(&locks).await.unwrap();
    assert!(!locks.is_locked("leaves").await.unwrap());
}

#[distributed_lock(key = "profile", profile = "checkout", handle = lock, manager = locks)]
async fn of_profile(locks: &LockManager) -> Result<Duration, LockError> {
    Ok(lock.remaining())
}

#[distributed_lock(key = "profile", ttl = "1h", profile = "checkout", handle = lock, manager = locks)]
async fn of_profile_but_the_ttl(locks: &LockManager) -> Result<Duration, LockError> {
    Ok(lock.remaining())
}

#[tokio::test(start_paused = true)]
async fn a_profile_gives_what_the_attribute_does_not_say() {
    let checkout = Profile::new().ttl(Duration::from_secs(90)).strategy(fail_fast());
    let locks = LockManager::builder(Memory::new()).profile("checkout", checkout).build().unwrap();
    let remaining = of_profile(&locks).await.unwrap();
    assert!(remaining > Duration::from_secs(85) && remaining <= Duration::from_secs(90), "{remaining:?}");
    assert!(of_profile_but_the_ttl(&locks).await.unwrap() > Duration::from_secs(3_000));
    let held = hold(&locks, "profile").await;
    assert_eq!(of_profile_but_the_ttl(&locks).await.unwrap_err().kind(), LockErrorKind::Contended);
    drop(held);

    let error = of_profile(&LockManager::in_memory()).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("checkout"), "{error}");
}

#[distributed_lock(keys = ["account:<from>", "account:<to>"], kind = "write", profile = "shared", handle = lock, manager = locks)]
async fn of_a_shared_profile(locks: &LockManager, from: u64, to: u64) -> Result<bool, LockError> {
    // The request is in another task, because this task would reenter its own grant.
    let other = tokio::spawn(locks.read(format!("account:{to}")).try_acquire()).await.expect("no panic")?;
    Ok(lock.is_held() && other.is_none())
}

#[tokio::test(start_paused = true)]
async fn the_kind_of_the_attribute_comes_before_that_of_the_profile_also_with_keys() {
    let shared = Profile::new().kind(Kind::Read);
    let locks = LockManager::builder(Memory::new()).profile("shared", shared).build().unwrap();
    for (from, to) in [(1, 2), (1, 1)] {
        assert!(of_a_shared_profile(&locks, from, to).await.unwrap(), "no reader beside it: {from}, {to}");
    }
}

#[distributed_lock(key = "job:report", ttl = "6s", min_hold = "60s", wait = "10s", strategy = "retry_or_skip", manager = locks)]
async fn report_of_the_day(locks: &LockManager, runs: &Mutex<u32>) -> Result<Option<()>, LockError> {
    *runs.lock().unwrap() += 1;
    Ok(Some(()))
}

/// Only one machine runs the job if the clocks of the machines differ by less than `min_hold` minus `wait`.
#[tokio::test(start_paused = true)]
async fn of_many_that_start_a_nightly_job_one_runs_it() {
    let (store, runs) = (Memory::new(), Arc::new(Mutex::new(0)));
    let mut machines = Vec::new();
    for late in [0, 0, 1, 30, 45] {
        let locks = LockManager::builder(store.clone()).build().unwrap();
        let runs = Arc::clone(&runs);
        machines.push(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(late)).await;
            report_of_the_day(&locks, &runs).await
        }));
    }
    let mut ran = 0;
    for machine in machines {
        ran += u32::from(machine.await.unwrap().unwrap().is_some());
    }
    assert_eq!((ran, *runs.lock().unwrap()), (1, 1), "the others were skipped");
}

/// A strategy that records the pauses of each backoff that it receives.
#[derive(Debug, Default, Clone)]
struct Noting(Arc<Mutex<Vec<Duration>>>);

impl Strategy for Noting {
    fn decide(&self, contention: &Contention) -> Decision {
        fail_fast().decide(contention)
    }

    fn name(&self) -> Cow<'static, str> {
        "noting".into()
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        let attempts = [1, u32::MAX].map(|n| Contention::new().with_attempts(n).with_jitter(1.0));
        let pauses = attempts.map(|attempt| backoff.delay(&attempt, None));
        self.0.lock().unwrap().extend(pauses);
        Some(Arc::new(fail_fast()))
    }
}

#[distributed_lock(key = "pauses", backoff(base = "70ms", max = "3s"), manager = locks)]
async fn with_pauses(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "pauses", backoff(max = "3s"), manager = locks)]
async fn with_longest_pause(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "pauses", strategy = "retry_or_skip", wait = "3s", backoff(base = "1s", max = "1s"), manager = locks)]
async fn with_strategy_and_pauses(locks: &LockManager) -> Result<Option<()>, LockError> {
    Ok(Some(()))
}

#[tokio::test(start_paused = true)]
async fn a_backoff_refines_the_strategy_that_there_is() {
    let noting = Noting::default();
    let locks = LockManager::builder(Memory::new()).strategy(noting.clone()).build().unwrap();
    with_pauses(&locks).await.unwrap();
    with_longest_pause(&locks).await.unwrap();
    let noted: Vec<_> = noting.0.lock().unwrap().iter().map(Duration::as_millis).collect();
    assert_eq!(noted, [70, 3_000, 5, 3_000]);

    let held = hold(&locks, "pauses").await;
    assert_eq!(with_strategy_and_pauses(&locks).await.unwrap(), None);
    held.release().await.unwrap();
    assert_eq!(with_strategy_and_pauses(&locks).await.unwrap(), Some(()));
}

#[tokio::test]
async fn a_backoff_for_a_strategy_that_does_not_try_again_is_refused() {
    let locks = LockManager::builder(Memory::new()).strategy(fail_fast()).build().unwrap();
    let error = with_pauses(&locks).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("`fail_fast`"), "{error}");
}
