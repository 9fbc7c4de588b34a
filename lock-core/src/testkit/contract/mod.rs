//! The contract of [`Backend`](crate::backend::Backend) as a suite of cases.
//!
//! [`run_all`] runs those that the backend's capability calls for, one after another, each on keys of its own, and
//! panics with the list of those that failed. Nothing is asked of the store but to answer; a store that is shared may
//! hold other keys. Real time passes for a store elsewhere: short leases run out, about twenty seconds in all for a
//! store that can do everything. For the memory store run it under tokio's paused clock.
//!
//! What a mutex must do is asked of everything that is one: each of those cases runs in every [`Variant`] that the
//! backend can do, and its name says which: `exclusive::excludes`, `exclusive::excludes@write`.
//!
//! A case that waits for expiry asks until it is granted and does not sleep a fixed time, and a case that shows that
//! something did *not* run out measures that with another key whose lease did.

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

/// A case that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// One sentence of the contract and its test.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// The file and the function, and the variant where it is not the plain one: `exclusive::excludes@write`.
    pub name: &'static str,
    /// What it runs on.
    pub variant: Variant,
    /// Whether the contract asks this of a backend that can do so much.
    pub needs: fn(&Capability) -> bool,
    /// Runs it; panics when the backend breaks the contract.
    pub run: fn(Subject) -> BoxFuture<'static, ()>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The cases of one file: `list![needs; name, name]`.
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

/// Whether each grant has a lease of its own, which runs out. In a session nothing does.
fn leases(can: &Capability) -> bool {
    can.lease == LeaseScope::Grant
}

/// Every case, whatever it needs.
#[must_use]
pub fn cases() -> Vec<Case> {
    // The names of the variants are made once for the process.
    static ALL: Lazy<Vec<Case>> = Lazy::new(|| {
        let mut all = Vec::new();
        for variant in Variant::ALL {
            all.extend(mutex_cases().into_iter().map(|case| variant.of(case)));
        }
        all.extend(other_cases());
        all
    });
    ALL.clone()
}

/// Of everything that has one holder at a time.
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

/// Runs the cases that apply, each on a subject that `make` makes for it, and reports.
///
/// # Panics
/// Does not: a case that panics is a [`Failure`] in the report.
///
/// # Cancel safety
/// Dropping it leaves the case that ran running on the runtime until its limit of one minute.
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
        // A task of its own catches the panic of the case.
        let outcome = tokio::spawn(tokio::time::timeout(LIMIT, (case.run)(subject))).await;
        let text = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(_)) => format!("took longer than {LIMIT:?}"),
            Err(error) => report::panic_text(error),
        };
        report.failures.push(Failure { case: case.name, text });
    }
    report
}

/// As [`run`], for a test: panics when a case failed.
///
/// # Panics
/// With the list of failures.
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
