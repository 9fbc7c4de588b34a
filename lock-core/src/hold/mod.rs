//! One grant in use: its local deadline, how many guards share it, and whether it is lost.
//!
//! | file | holds |
//! | --- | --- |
//! | `grant` | [`Hold`], and the guards that share it |
//! | `state` | what it may be: held, endangered, ended, lost |
//! | `lease` | its deadline, and what is taken off a lease |
//! | `loss` | whether it is still ours |
//! | `fence` | its fencing token |
//! | `fork` | what is refused in a forked child |
//! | `turn` | passing it on inside the process |

mod fence;
mod fork;
mod grant;
mod lease;
mod loss;
mod state;
#[cfg(test)]
mod tests;
mod turn;

pub(crate) use fence::Numbering;
pub(crate) use grant::{Hold, Terms};
pub(crate) use lease::{drift, forgotten, outlasts};
