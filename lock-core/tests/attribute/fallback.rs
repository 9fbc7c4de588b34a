//! The option `fallback`: when the fallback is called, and with which arguments.
#![allow(clippy::unused_async, reason = "a fallback is an `async fn`, however little it does")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::strategy::{fail_fast, shed};
use lock_core::{LockError, LockErrorKind, LockManager, distributed_lock};

use crate::support::{assert_send, hold, is_held};

/// A value that cannot be cloned, so only one of the body and the fallback gets it.
#[derive(Debug, PartialEq)]
struct Order(u64);

/// The function that answered.
#[derive(Debug, PartialEq)]
enum By {
    Body(u64),
    Fallback(u64),
}

async fn later(_locks: &LockManager, order: Order) -> Result<By, LockError> {
    Ok(By::Fallback(order.0))
}

#[distributed_lock(key = "k", strategy = "fail_fast", fallback = later, manager = locks)]
async fn contended(locks: &LockManager, order: Order) -> Result<By, LockError> {
    Ok(By::Body(order.0))
}

#[distributed_lock(key = "k", wait = "1s", fallback = later, manager = locks)]
async fn timed_out(locks: &LockManager, order: Order) -> Result<By, LockError> {
    Ok(By::Body(order.0))
}

#[distributed_lock(key = "k", strategy = shed(lock_core::strategy::wait(), 0), fallback = later, manager = locks)]
async fn overloaded(locks: &LockManager, order: Order) -> Result<By, LockError> {
    Ok(By::Body(order.0))
}

#[distributed_lock(keys = ["k", "other"], strategy = "fail_fast", fallback = later, manager = locks)]
async fn several(locks: &LockManager, order: Order) -> Result<By, LockError> {
    Ok(By::Body(order.0))
}

#[tokio::test(start_paused = true)]
async fn whatever_way_the_strategy_gives_up_the_fallback_has_the_arguments() {
    let locks = LockManager::in_memory();
    let held = hold(&locks, "k").await;
    assert_eq!(assert_send(contended(&locks, Order(1))).await.unwrap(), By::Fallback(1));
    assert_eq!(assert_send(timed_out(&locks, Order(2))).await.unwrap(), By::Fallback(2));
    assert_eq!(overloaded(&locks, Order(3)).await.unwrap(), By::Fallback(3));
    assert_eq!(several(&locks, Order(4)).await.unwrap(), By::Fallback(4));
    held.release().await.unwrap();
    assert_eq!(contended(&locks, Order(1)).await.unwrap(), By::Body(1));
    assert_eq!(timed_out(&locks, Order(2)).await.unwrap(), By::Body(2));
    assert_eq!(overloaded(&locks, Order(3)).await.unwrap(), By::Body(3));
    assert_eq!(several(&locks, Order(4)).await.unwrap(), By::Body(4));
    assert_eq!(locks.held(), 0);
}

async fn sum(_locks: &LockManager, pair: (u64, u64)) -> Result<By, LockError> {
    Ok(By::Fallback(pair.0 + pair.1))
}

#[distributed_lock(key = "pair:<pair.0>", strategy = "fail_fast", fallback = sum, manager = locks)]
async fn of_a_pattern_with_a_name(
    locks: &LockManager,
    pair @ (_, right): (u64, u64),
) -> Result<By, LockError> {
    Ok(By::Body(pair.0 * right))
}

#[tokio::test(start_paused = true)]
async fn a_pattern_with_a_name_for_the_whole_is_passed_on_and_names_the_key() {
    let locks = LockManager::in_memory();
    assert_eq!(of_a_pattern_with_a_name(&locks, (3, 4)).await.unwrap(), By::Body(12));
    let _held = hold(&locks, "pair:3").await;
    assert_eq!(of_a_pattern_with_a_name(&locks, (3, 4)).await.unwrap(), By::Fallback(7));
}

#[derive(Default)]
struct Runs {
    bodies: AtomicUsize,
    fallbacks: AtomicUsize,
}

impl Runs {
    fn counts(&self) -> (usize, usize) {
        (self.bodies.load(Ordering::Relaxed), self.fallbacks.load(Ordering::Relaxed))
    }
}

async fn note(_locks: &LockManager, runs: &Runs) {
    runs.fallbacks.fetch_add(1, Ordering::Relaxed);
}

async fn note_some(_locks: &LockManager, runs: &Runs) -> Option<u8> {
    runs.fallbacks.fetch_add(1, Ordering::Relaxed);
    Some(2)
}

async fn note_ok(locks: &LockManager, runs: &Runs) -> Result<Option<u8>, LockError> {
    Ok(note_some(locks, runs).await)
}

#[distributed_lock(key = "k", strategy = "skip", fallback = note, manager = locks)]
async fn unit(locks: &LockManager, runs: &Runs) {
    runs.bodies.fetch_add(1, Ordering::Relaxed);
}

#[distributed_lock(key = "k", strategy = "retry_or_skip", wait = "50ms", fallback = note_some, manager = locks)]
async fn option(locks: &LockManager, runs: &Runs) -> Option<u8> {
    runs.bodies.fetch_add(1, Ordering::Relaxed);
    Some(1)
}

#[distributed_lock(key = "k", strategy = "skip", fallback = note_ok, manager = locks)]
async fn result(locks: &LockManager, runs: &Runs) -> Result<Option<u8>, LockError> {
    runs.bodies.fetch_add(1, Ordering::Relaxed);
    Ok(Some(1))
}

#[tokio::test(start_paused = true)]
async fn in_place_of_a_skip_the_fallback_is_called() {
    let (locks, runs) = (LockManager::in_memory(), Runs::default());
    let held = hold(&locks, "k").await;
    unit(&locks, &runs).await;
    assert_eq!(option(&locks, &runs).await, Some(2));
    assert_eq!(result(&locks, &runs).await.unwrap(), Some(2));
    assert_eq!(runs.counts(), (0, 3));
    held.release().await.unwrap();
    unit(&locks, &runs).await;
    assert_eq!(option(&locks, &runs).await, Some(1));
    assert_eq!(result(&locks, &runs).await.unwrap(), Some(1));
    assert_eq!(runs.counts(), (3, 3));
}

async fn never(_locks: &LockManager, _name: &str) -> Result<(), LockError> {
    panic!("only contention is for the fallback");
}

#[distributed_lock(key = "<name>", strategy = "fail_fast", fallback = never, manager = locks)]
async fn by_name(locks: &LockManager, name: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "<name>", max_hold = "1s", fallback = never, manager = locks)]
async fn loses(locks: &LockManager, name: &str) -> Result<(), LockError> {
    std::future::pending().await
}

#[distributed_lock(key = "outer:<name>", strategy = "fail_fast", fallback = never, manager = locks)]
async fn fails_inside(locks: &LockManager, name: &str) -> Result<(), LockError> {
    let guard = locks.lock(name).strategy(fail_fast()).acquire().await?;
    drop(guard);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_but_contention_for_its_own_key_is_for_the_fallback() {
    let locks = LockManager::in_memory();
    assert_eq!(by_name(&locks, "").await.unwrap_err().kind(), LockErrorKind::InvalidKey);
    assert_eq!(loses(&locks, "x").await.unwrap_err().kind(), LockErrorKind::Lost);
    let held = hold(&locks, "inner").await;
    assert!(fails_inside(&locks, "inner").await.unwrap_err().is_contended(), "the error of the body");
    held.release().await.unwrap();
    locks.shutdown(Duration::ZERO).await;
    assert_eq!(by_name(&locks, "x").await.unwrap_err().kind(), LockErrorKind::ShuttingDown);
}

struct Shop {
    locks: LockManager,
    sold: u64,
}

impl Shop {
    fn new(locks: &LockManager) -> Self {
        Self { locks: locks.clone(), sold: 0 }
    }

    #[distributed_lock(key = "k", strategy = "fail_fast", fallback = Self::later, manager = self.locks)]
    async fn shared(&self, order: Order) -> Result<By, LockError> {
        Ok(By::Body(order.0))
    }

    async fn later(&self, order: Order) -> Result<By, LockError> {
        assert!(is_held(&self.locks, "k").await, "by another: the fallback runs without the lock");
        Ok(By::Fallback(order.0))
    }

    #[distributed_lock(key = "k", strategy = "fail_fast", fallback = Self::note, manager = self.locks)]
    async fn exclusive(&mut self, mut count: u64, more: &mut u64) -> Result<u64, LockError> {
        count += 1;
        self.sold += count;
        *more += count;
        Ok(self.sold)
    }

    async fn note(&mut self, count: u64, more: &mut u64) -> Result<u64, LockError> {
        self.sold += 100 * count;
        *more += 100 * count;
        Ok(self.sold)
    }

    #[distributed_lock(key = "k", strategy = "fail_fast", fallback = Self::by_value_later, manager = self.locks)]
    async fn by_value(self) -> Result<&'static str, LockError> {
        Ok("body")
    }

    async fn by_value_later(self) -> Result<&'static str, LockError> {
        Ok("fallback")
    }

    #[distributed_lock(key = "k", strategy = "fail_fast", fallback = arc_later, manager = self.locks)]
    async fn arc(self: Arc<Self>) -> Result<&'static str, LockError> {
        Ok("body")
    }

    #[distributed_lock(key = "k", strategy = "fail_fast", fallback = Shop::pinned_later, manager = self.locks)]
    async fn pinned(mut self: Pin<&mut Self>) -> Result<u64, LockError> {
        self.sold += 1;
        Ok(self.sold)
    }

    async fn pinned_later(mut self: Pin<&mut Self>) -> Result<u64, LockError> {
        self.sold += 100;
        Ok(self.sold)
    }
}

/// If the fallback is a free function, `self` is its first argument.
async fn arc_later(shop: Arc<Shop>) -> Result<&'static str, LockError> {
    assert_eq!(shop.sold, 0);
    Ok("fallback")
}

#[tokio::test]
async fn each_receiver_goes_to_one_of_the_two() {
    let locks = LockManager::in_memory();
    let mut shop = Shop::new(&locks);
    let (mut more, held) = (0, hold(&locks, "k").await);
    assert_eq!(assert_send(shop.shared(Order(1))).await.unwrap(), By::Fallback(1));
    assert_eq!(assert_send(shop.exclusive(2, &mut more)).await.unwrap(), 200);
    assert_eq!(Pin::new(&mut shop).pinned().await.unwrap(), 300);
    assert_eq!(Arc::new(Shop::new(&locks)).arc().await.unwrap(), "fallback");
    assert_eq!(Shop::new(&locks).by_value().await.unwrap(), "fallback");
    held.release().await.unwrap();
    assert_eq!(shop.shared(Order(1)).await.unwrap(), By::Body(1));
    assert_eq!(shop.exclusive(2, &mut more).await.unwrap(), 303);
    assert_eq!(more, 203);
    assert_eq!(Pin::new(&mut shop).pinned().await.unwrap(), 304);
    assert_eq!(Arc::new(Shop::new(&locks)).arc().await.unwrap(), "body");
    assert_eq!(Shop::new(&locks).by_value().await.unwrap(), "body");
}

async fn patterns_later<T: Send>(
    _locks: &LockManager,
    (left, right): (Order, Order),
    all: [u8; 2],
    _: u8,
    _unused: u8,
    value: T,
) -> Result<(u64, T), LockError> {
    Ok((1_000 + left.0 + right.0 + u64::from(all[0]), value))
}

#[distributed_lock(
    key = "k", strategy = "fail_fast", fallback = patterns_later::<T>, manager = locks, handle = lock
)]
async fn patterns<T: Send>(
    locks: &LockManager,
    (mut left, right): (Order, Order),
    ref all @ [first, _]: [u8; 2],
    _: u8,
    _unused: u8,
    value: T,
) -> Result<(u64, T), LockError> {
    lock.check()?;
    left.0 += right.0;
    Ok((left.0 + u64::from(first) + u64::from(all[1]), value))
}

#[tokio::test]
async fn parameters_with_patterns_are_passed_on_whole() {
    let locks = LockManager::in_memory();
    let held = hold(&locks, "k").await;
    let call = || patterns(&locks, (Order(10), Order(20)), [3, 4], 0, 0, "x");
    assert_eq!(call().await.unwrap(), (1_033, "x"));
    held.release().await.unwrap();
    assert_eq!(call().await.unwrap(), (37, "x"));
}

trait Native {
    fn locks(&self) -> &LockManager;

    #[distributed_lock(key = "k", strategy = "skip", fallback = Self::later, manager = self.locks())]
    async fn default_body(&self, order: Order) -> Option<u64> {
        Some(order.0)
    }

    async fn later(&self, order: Order) -> Option<u64>;
}

#[async_trait]
trait Boxed {
    async fn pay(&mut self, (id, order): (u64, Order), mut count: u64) -> Result<By, LockError>;
    async fn pay_later(&mut self, pair: (u64, Order), count: u64) -> Result<By, LockError>;
}

impl Native for Shop {
    fn locks(&self) -> &LockManager {
        &self.locks
    }

    async fn later(&self, order: Order) -> Option<u64> {
        Some(100 + order.0)
    }
}

#[async_trait]
impl Boxed for Shop {
    #[distributed_lock(
        key = "k", strategy = "fail_fast", fallback = Self::pay_later, manager = self.locks, handle = lock
    )]
    async fn pay(&mut self, (id, order): (u64, Order), mut count: u64) -> Result<By, LockError> {
        lock.check()?;
        count += id;
        self.sold += count;
        Ok(By::Body(order.0 + self.sold))
    }

    async fn pay_later(&mut self, pair: (u64, Order), count: u64) -> Result<By, LockError> {
        Ok(By::Fallback(pair.0 + pair.1.0 + count))
    }
}

#[tokio::test]
async fn methods_of_traits_fall_back() {
    let locks = LockManager::in_memory();
    let mut shop = Shop::new(&locks);
    let held = hold(&locks, "k").await;
    assert_eq!(shop.default_body(Order(1)).await, Some(101));
    assert_eq!(assert_send(shop.pay((1, Order(2)), 3)).await.unwrap(), By::Fallback(6));
    held.release().await.unwrap();
    assert_eq!(shop.default_body(Order(1)).await, Some(1));
    assert_eq!(shop.pay((1, Order(2)), 3).await.unwrap(), By::Body(6));
}

async fn queue(locks: &LockManager, order: Order) -> Result<By, LockError> {
    contended_again(locks, order).await
}

#[distributed_lock(key = "k", strategy = "fail_fast", fallback = queue, manager = locks)]
async fn first(locks: &LockManager, order: Order) -> Result<By, LockError> {
    Ok(By::Body(order.0))
}

#[distributed_lock(key = "queue:<order.0>", strategy = "fail_fast", manager = locks)]
async fn contended_again(locks: &LockManager, order: Order) -> Result<By, LockError> {
    assert!(is_held(locks, "queue:7").await);
    Ok(By::Fallback(order.0))
}

#[tokio::test]
async fn a_fallback_may_take_a_lock_of_its_own() {
    let locks = LockManager::in_memory();
    let held = hold(&locks, "k").await;
    assert_eq!(first(&locks, Order(7)).await.unwrap(), By::Fallback(7));
    drop(held);
}

impl Shop {
    #[distributed_lock(key = "k", strategy = "fail_fast", fallback = Self::longest, manager = self.locks)]
    async fn first<'a>(&self, name: &'a str, _other: &'a str) -> Result<&'a str, LockError> {
        Ok(name)
    }

    async fn longest<'a>(&self, name: &'a str, other: &'a str) -> Result<&'a str, LockError> {
        Ok(if name.len() > other.len() { name } else { other })
    }

    #[distributed_lock(key = "k", strategy = "skip", fallback = Self::own_locks, manager = self.locks)]
    async fn locks_of(&self) -> Option<&LockManager> {
        None
    }

    async fn own_locks(&self) -> Option<&LockManager> {
        Some(&self.locks)
    }
}

#[tokio::test]
async fn an_answer_may_be_borrowed() {
    let locks = LockManager::in_memory();
    let shop = Shop::new(&locks);
    let held = hold(&locks, "k").await;
    let long = String::from("long");
    assert_eq!(shop.first("x", &long).await.unwrap(), "long");
    assert!(shop.locks_of().await.is_some());
    held.release().await.unwrap();
    assert_eq!(shop.first("x", &long).await.unwrap(), "x");
    assert!(shop.locks_of().await.is_none());
}

/// If the fallback is not called, both parts of the parameter are dropped before the release, as without a fallback.
#[tokio::test]
async fn a_parameter_that_was_taken_apart_is_dropped_under_the_lock() {
    struct Witness(LockManager, Arc<AtomicUsize>);

    impl Drop for Witness {
        fn drop(&mut self) {
            self.1.fetch_add(self.0.held(), Ordering::SeqCst);
        }
    }

    #[distributed_lock(key = "k", fallback = other, manager = locks)]
    async fn apart((one, two): (Witness, Witness), locks: &LockManager) -> Result<(), LockError> {
        drop(one);
        let _ = two;
        Ok(())
    }

    async fn other(_: (Witness, Witness), _: &LockManager) -> Result<(), LockError> {
        Ok(())
    }

    let (locks, held) = (LockManager::in_memory(), Arc::new(AtomicUsize::new(0)));
    let witness = || Witness(locks.clone(), Arc::clone(&held));
    apart((witness(), witness()), &locks).await.unwrap();
    assert_eq!(held.load(Ordering::SeqCst), 2);
}
