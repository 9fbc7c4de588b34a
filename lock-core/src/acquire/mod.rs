//! From request to guard: the one place that waits.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan` | [`Plan`]: the request with its defaults, and what is found out without the store |
//! | `run` | [`acquire`](acquire()): the loop, until the store or another holder of this process gives the key, or the strategy has had enough |
//! | `ask` | one question to the store |
//! | `wait` | what the loop waits for |
//! | `promote` | from what was offered to a guard |
//! | `refusal` | why a wait ended without the lock |
//! | `recorder` | what an operator sees of a request: metrics, events, log |
//! | `spans` | its span, and that of the grant |
//! | `multi`, `partial_grants` | several keys: all or none |
//! | `event` | what happens in the loop, as values |
//!
//! [`PendingClaim`](crate::pending::PendingClaim) gives back what a dropped loop may have taken.

mod ask;
mod event;
mod multi;
mod partial_grants;
mod plan;
mod promote;
mod recorder;
mod refusal;
mod run;
mod spans;
mod wait;
mod watch;

pub(crate) use plan::Plan;
pub(crate) use run::acquire;
