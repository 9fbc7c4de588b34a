//! The contract of [`Backend`](crate::backend::Backend) as a suite of cases.
//!
//! [`run_all`] runs the cases that the capability of the backend requires, one after another, each on its own keys. It
//! panics with the list of the failed cases. The store needs no preparation, and may contain other keys. With a remote
//! store the suite takes real time, because short leases must expire: about twenty seconds for a store that supports
//! everything. For the memory store, run the suite under tokio's paused clock.
//!
//! The cases for a mutex apply to every lock with one holder at a time. Each of these cases runs in every [`Variant`]
//! that the backend supports, and its name has the variant: `exclusive::excludes`, `exclusive::excludes@write`.
//!
//! A case that waits for expiry retries until it is granted, and does not sleep for a fixed time. A case may have to
//! show that a lease did *not* expire. It then waits until the shorter lease of another key has expired.

mod cancel;
mod downgrade;
mod exclusive;
mod expiry;
mod fencing;
mod fifo;
mod inspect;
mod latch;
mod line;
mod listener;
mod permit;
mod permits;
mod refusal;
mod release;
mod renewal;
mod report;
mod session;
mod several;
mod shared;
mod subject;
mod variant;

use std::fmt;
use std::future::Future;
use std::time::Duration;

pub use report::{Failure, Report};
pub use subject::Subject;
pub use variant::Variant;

use once_cell::sync::Lazy;

use crate::backend::{BoxFuture, Capability, LeaseScope};

/// The time after which a case has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// The largest number of runs of a case. A case runs again if its failure proves nothing, because the machine was slow.
const GOES: usize = 3;

/// One rule of the contract, with its test.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// The names of the file and the function, and of the variant if it is not [`Variant::Plain`]:
    /// `exclusive::excludes@write`.
    pub name: &'static str,
    /// The variant of a mutex that the case runs on.
    pub variant: Variant,
    /// Returns whether the contract requires the case of a backend with this capability.
    pub needs: fn(&Capability) -> bool,
    /// Runs the case. Panics when the backend breaks the contract.
    pub run: fn(Subject) -> BoxFuture<'static, ()>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Makes the cases of one file: `list![needs; name, name]`.
macro_rules! list {
    ($needs:expr; $($name:ident),+ $(,)?) => {
        [$($crate::testkit::contract::Case {
            name: concat!(module_path!(), "::", stringify!($name)),
            variant: $crate::testkit::contract::Variant::Plain,
            needs: $needs,
            run: |subject| Box::pin($name(subject)),
        }),+]
    };
}
use list;

/// Returns whether each grant has its own lease, which expires. If grants live in a session, no grant expires by
/// itself.
fn leases(can: &Capability) -> bool {
    can.lease == LeaseScope::Grant
}

/// Returns all cases, including those that a backend may not need to pass.
#[must_use]
pub fn cases() -> Vec<Case> {
    // The names of cases with a variant are leaked, so they are made only once.
    static ALL: Lazy<Vec<Case>> = Lazy::new(|| {
        let mut all = Vec::new();
        for variant in Variant::ALL {
            all.extend(mutex_cases().into_iter().map(|case| variant.apply_to(case)));
        }
        all.extend(other_cases());
        all
    });
    ALL.clone()
}

/// Returns the cases for every lock with one holder at a time.
fn mutex_cases() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(exclusive::cases());
    all.extend(release::cases());
    all.extend(expiry::cases());
    all.extend(renewal::cases());
    all.extend(fencing::cases());
    all.extend(cancel::cases());
    named(all)
}

fn other_cases() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(release::telling());
    all.extend(cancel::waiting());
    all.extend(fencing::over_readers());
    all.extend(fifo::cases());
    all.extend(line::cases());
    all.extend(shared::cases());
    all.extend(downgrade::cases());
    all.extend(permit::cases());
    all.extend(permits::cases());
    all.extend(several::cases());
    all.extend(latch::cases());
    all.extend(listener::cases());
    all.extend(inspect::cases());
    all.extend(session::cases());
    all.extend(refusal::cases());
    named(all)
}

fn named(mut cases: Vec<Case>) -> Vec<Case> {
    for case in &mut cases {
        case.name = case.name.rsplit_once("contract::").map_or(case.name, |(_, name)| name);
    }
    cases
}

/// Runs the cases that apply, each on a new subject from `make`, and reports the results.
///
/// Leases and queue entries expire by real time. On a busy machine they may expire before the next step of a case. So a
/// failed case runs again, at most three times in all, if one of its calls took longer than an eighth of the shortest
/// of these times. [`Report::again`] names such a case, because repeated runs could hide a rare fault.
///
/// # Panics
/// Never panics. A case that panics becomes a [`Failure`] in the report.
///
/// # Cancel safety
/// If the future is dropped, the case in progress continues on the runtime, for one minute at most.
pub async fn run<F, S>(mut make: F) -> Report
where
    F: FnMut() -> S,
    S: Future<Output = Subject>,
{
    let mut report = Report::default();
    for case in cases() {
        let subject = make().await.for_case(case.name, case.variant);
        let can = subject.capability();
        if !((case.needs)(&can) && case.variant.is_possible(&can)) {
            report.not_applicable.push(case.name);
            continue;
        }
        report.ran.push(case.name);
        let (mut result, mut slow) = go(case, subject).await;
        for _ in 1..GOES {
            if result.is_ok() || !slow {
                break;
            }
            report.again.push(case.name);
            let subject = make().await.for_case(case.name, case.variant);
            (result, slow) = go(case, subject).await;
        }
        report.failures.extend(result.err().map(|text| Failure { case: case.name, text }));
    }
    report
}

/// Runs a case once. Returns the reason if it failed, and whether a call was slow.
async fn go(case: Case, subject: Subject) -> (Result<(), String>, bool) {
    let was_slow = subject.was_slow();
    // A separate task catches the panic of the case.
    let outcome = tokio::spawn(tokio::time::timeout(LIMIT, (case.run)(subject))).await;
    let result = match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(format!("took longer than {LIMIT:?}")),
        Err(error) => Err(report::panic_text(error)),
    };
    (result, was_slow())
}

/// Runs the cases like [`run`], for a test.
///
/// # Panics
/// Panics when a case failed, with the list of failures.
///
/// # Cancel safety
/// As [`run`].
pub async fn run_all<F, S>(make: F) -> Report
where
    F: FnMut() -> S,
    S: Future<Output = Subject>,
{
    let report = run(make).await;
    assert!(report.failures.is_empty(), "{report}");
    report
}
