//! The return types, and their values when the lock is held, skipped or failed.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockManager, distributed_lock};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::hold;

#[derive(Debug)]
enum ShipError {
    Lock(LockError),
    Empty,
}

impl From<LockError> for ShipError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl fmt::Display for ShipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A manager, and how often a body ran.
struct Probe {
    locks: LockManager,
    runs: AtomicUsize,
}

impl Probe {
    fn new() -> Self {
        Self { locks: LockManager::in_memory(), runs: AtomicUsize::new(0) }
    }

    fn ran(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

#[distributed_lock(key = "k", strategy = "fail_fast", manager = probe.locks)]
async fn own_error(probe: &Probe, count: u64) -> Result<u64, ShipError> {
    probe.ran();
    if count == 0 {
        return Err(ShipError::Empty);
    }
    let parsed: u64 = "5".parse().map_err(|_| ShipError::Empty)?;
    Ok(parsed + count)
}

#[distributed_lock(key = "k", strategy = "skip", manager = probe.locks)]
async fn unit(probe: &Probe) {
    probe.ran();
}

#[distributed_lock(key = "k", strategy = "skip", manager = probe.locks)]
async fn option(probe: &Probe) -> Option<u64> {
    probe.ran();
    Some(1)
}

#[distributed_lock(key = "k", strategy = "skip", manager = probe.locks)]
async fn result_unit(probe: &Probe) -> Result<(), ShipError> {
    probe.ran();
    Ok(())
}

#[distributed_lock(key = "k", strategy = "retry_or_skip", wait = "50ms", manager = probe.locks)]
async fn result_option(probe: &Probe) -> Result<Option<u64>, LockError> {
    probe.ran();
    Ok(Some(1))
}

#[distributed_lock(key = "k", strategy = lock_core::strategy::skip(), manager = probe.locks)]
async fn skip_as_expression(probe: &Probe) -> Result<u64, LockError> {
    probe.ran();
    Ok(1)
}

#[distributed_lock(key = "k", strategy = "retry", wait = "50ms", manager = probe.locks)]
async fn retry(probe: &Probe) -> Result<u64, LockError> {
    probe.ran();
    Ok(1)
}

type Done = Result<(), ShipError>;
type Found<T> = Result<Option<T>, LockError>;
type Nothing = ();

#[distributed_lock(key = "k", strategy = "skip", manager = probe.locks)]
async fn alias_of_result(probe: &Probe) -> Done {
    probe.ran();
    Ok(())
}

#[distributed_lock(key = "k", strategy = "skip", manager = probe.locks)]
async fn alias_with_a_type(probe: &Probe) -> Found<u64> {
    probe.ran();
    Ok(Some(1))
}

#[distributed_lock(key = "k", strategy = "skip", manager = probe.locks)]
async fn alias_of_unit(probe: &Probe) -> Nothing {
    probe.ran();
}

#[tokio::test]
async fn the_name_of_a_return_type_does_not_matter() {
    let probe = Probe::new();
    let held = hold(&probe.locks, "k").await;
    assert!(alias_of_result(&probe).await.is_ok());
    assert_eq!(alias_with_a_type(&probe).await.unwrap(), None);
    alias_of_unit(&probe).await;
    assert_eq!(probe.runs(), 0);
    held.release().await.unwrap();
    assert!(alias_of_result(&probe).await.is_ok());
    assert_eq!(alias_with_a_type(&probe).await.unwrap(), Some(1));
    alias_of_unit(&probe).await;
    assert_eq!(probe.runs(), 3);
}

#[distributed_lock(key = "<name>", strategy = "skip", manager = probe.locks)]
async fn bad_key(probe: &Probe, name: &str) -> Option<u64> {
    probe.ran();
    Some(1)
}

#[distributed_lock(key = "<name>", strategy = "skip", manager = probe.locks)]
async fn bad_key_told(probe: &Probe, name: &str) -> Result<(), LockError> {
    probe.ran();
    Ok(())
}

#[distributed_lock(key = "nobody installed a manager")]
async fn no_manager() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_free_key_gives_what_the_body_gives() {
    let probe = Probe::new();
    assert_eq!(own_error(&probe, 2).await.unwrap(), 7);
    assert!(matches!(own_error(&probe, 0).await, Err(ShipError::Empty)));
    unit(&probe).await;
    assert_eq!(option(&probe).await, Some(1));
    assert!(result_unit(&probe).await.is_ok());
    assert_eq!(result_option(&probe).await.unwrap(), Some(1));
    assert_eq!(skip_as_expression(&probe).await.unwrap(), 1);
    assert_eq!(retry(&probe).await.unwrap(), 1);
    assert_eq!(probe.runs(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_held_key_is_told_as_the_type_can_and_no_body_runs() {
    let probe = Probe::new();
    let held = hold(&probe.locks, "k").await;

    assert!(matches!(own_error(&probe, 2).await, Err(ShipError::Lock(error)) if error.is_contended()));
    unit(&probe).await;
    assert_eq!(option(&probe).await, None);
    assert!(result_unit(&probe).await.is_ok());
    assert_eq!(result_option(&probe).await.unwrap(), None);
    assert!(skip_as_expression(&probe).await.unwrap_err().is_skipped());
    let error = retry(&probe).await.unwrap_err();
    assert!(error.is_timed_out() && !error.is_skipped(), "{error}");
    let waited = error.waited().expect("it waited");
    assert!(waited >= Duration::from_millis(50) && waited < Duration::from_secs(1), "{waited:?}");
    assert_eq!(probe.runs(), 0);
    held.release().await.unwrap();
}

/// Collects the fields of every event at ERROR.
#[derive(Clone, Default)]
struct ErrorLog(Arc<Mutex<String>>);

impl Subscriber for ErrorLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut log = self.0.lock().unwrap();
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
            writeln!(log, "{field}={value:?}").expect("a string takes everything");
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_failure_is_no_skip() {
    let probe = Probe::new();
    let log = ErrorLog::default();
    // If there is only one subscriber and a test without a subscriber reaches a call site first, tracing disables that
    // call site for all tests.
    let _second = tracing::Dispatch::new(ErrorLog::default());
    let _logged = tracing::subscriber::set_default(log.clone());

    let error = bad_key_told(&probe, "").await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidKey);
    let held = hold(&probe.locks, "k").await;
    assert_eq!(option(&probe).await, None);
    assert_eq!(*log.0.lock().unwrap(), "", "a skip, or an error that the caller has, is nothing for the log");
    held.release().await.unwrap();

    // The return type cannot carry the error. Only the log says that the call failed, and which function it was.
    assert_eq!(bad_key(&probe, "").await, None);
    assert_eq!(probe.runs(), 0);
    let log = log.0.lock().unwrap();
    assert!(log.contains("outcomes::bad_key") && log.contains("invalid key"), "{log}");
}

#[tokio::test]
async fn without_a_manager_the_error_says_so_and_a_scope_gives_one() {
    assert_eq!(no_manager().await.unwrap_err().kind(), LockErrorKind::NotInstalled);
    LockManager::in_memory().scope(no_manager()).await.unwrap();
}
