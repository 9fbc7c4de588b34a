//! What is asked of the cluster, one file for each call of the contract.

mod acquire;
mod acquire_all;
mod as_it_waited;
mod changed;
mod downgrade;
mod inspect;
mod list;
mod release;
mod renew;
mod secure;

pub(super) use acquire::WAITER_LEASE;
