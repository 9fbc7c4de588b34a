//! Implements `durability`: a lock counts as granted only when enough replicas or disks have it.

mod confirm;
mod policy;

pub(crate) use confirm::{Confirmed, Confirmer, patience};
pub(crate) use policy::Proof;
