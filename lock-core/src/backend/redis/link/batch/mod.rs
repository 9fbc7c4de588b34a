//! Requests of many tasks that leave as one call.
//!
//! A command costs the client and the server much the same whatever it does. So where very many requests are under way
//! at once, the short ones of all tasks leave as one call of a script. A batch that is full is sent next, so that the
//! server works while the other tasks still ask; another one is sent once the tasks that are ready have run.
//!
//! - [`step`]: one request, and what came of it.
//! - [`unanswered`]: the batches that are not answered, and the deadlines of their steps.
//! - [`send`]: the call, and its answer.

mod send;
mod step;
mod unanswered;

pub(crate) use step::{Outcome, Step};
pub(crate) use unanswered::{Batches, Counted};
