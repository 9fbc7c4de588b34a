//! Locks on a Redis Cluster of six nodes.

mod contract;
mod doctor;
mod durability;
mod failover;
#[path = "../findings/mod.rs"]
mod findings;
mod following;
mod listing;
mod looking;
mod moving;
mod permissions;
mod ping;
#[path = "../pings/mod.rs"]
mod pings;
mod renewal;
mod routing;
mod several;
mod storm;
mod support;
mod tls;
#[path = "../redis/turns.rs"]
mod turns;
mod waiting;
mod warnings;
