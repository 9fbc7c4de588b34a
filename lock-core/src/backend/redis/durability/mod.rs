//! Optional durability: the copies that a lock needs before it counts as granted.

mod confirm;
mod policy;

pub(crate) use confirm::{Confirmed, Confirmer, patience};
pub(crate) use policy::Proof;
