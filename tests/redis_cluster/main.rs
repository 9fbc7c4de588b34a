//! Locks on a Redis Cluster of six nodes.

mod contract;
mod durability;
mod failover;
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
