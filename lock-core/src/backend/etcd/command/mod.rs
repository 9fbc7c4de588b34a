//! The requests to the cluster, one file for each call of the contract.

mod acquire;
mod bind;
mod create;
mod downgrade;
mod enter;
mod enter_task;
mod entered;
mod inspect;
mod list;
mod release;
mod renew;
mod round;
mod several;
mod view;
mod wait;

pub(super) use acquire::WAITER_LEASE;
