//! The tools of the tests on real servers: servers as child processes, a proxy that injects faults, and checks.
//!
//! Nothing here depends on the crates under test. A test owns everything that it starts. A server, a worker or a proxy
//! ends when its value is dropped, and also when the test process is killed. If a tool fails, it panics with a text
//! that says what was expected.

mod certificates;
mod clock;
mod cluster;
mod counter;
mod crowd;
mod directory;
mod dropped;
mod etcd;
mod fenced;
mod held_since;
mod peers;
mod pgbouncer;
mod port;
mod postgres_server;
mod process;
mod proxy;
mod recorder;
mod redis_server;
mod replica;
mod scale;
mod sentinel;
mod starts;
mod turns;
mod wait;
mod warnings;
mod worker;
mod zookeeper_security;
mod zookeeper_server;

pub use certificates::Certificates;
pub use clock::Clock;
pub use cluster::RedisCluster;
pub use counter::Counter;
pub use crowd::Crowd;
pub use directory::Directory;
pub use dropped::dropped_refuses_no_request;
pub use etcd::{Etcd, EtcdBuilder, GrpcProxy};
pub use fenced::Fenced;
pub use held_since::is_held_since_its_grant;
pub use pgbouncer::PgBouncer;
pub use postgres_server::PostgresServer;
pub use process::Process;
pub use proxy::{Bytes, Flow, Proxy, Traffic};
pub use recorder::{Recorder, SentCommand};
pub use redis_server::{CHECKED, RedisBuilder, RedisServer};
pub use replica::Replica;
pub use scale::scale;
pub use sentinel::Sentinels;
pub use turns::take_turns;
pub use wait::{
    Bound, PATIENCE, START_WITHIN, monotonic, soon_in_one_of_ten, until_locked_again, wait_until,
    wait_until_or,
};
pub use warnings::Warnings;
pub use worker::Worker;
pub use zookeeper_server::{ZooKeeperBuilder, ZooKeeperServers};

/// The README of the repository. It is included here so that its examples compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
