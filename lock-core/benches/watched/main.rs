//! Compares the locks on etcd and ZooKeeper, where each waiter watches the queue entry before its own, with the fewest
//! writes that any lock needs there.
//!
//! ```sh
//! cargo bench -p lock-core --features etcd,zookeeper --bench watched              # both, about two minutes
//! cargo bench -p lock-core --features etcd,zookeeper --bench watched -- etcd      # or zookeeper
//! ```
//!
//! The baseline creates and deletes one node or one entry through the same driver. It has no order, no waiters, and no
//! fencing token. On etcd there is a second baseline, because a lock must read the entry before it changes the entry,
//! which takes a transaction. The server is one process without a second member, on one core and without a disk. All
//! clients have the other core, if the machine has two.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

#[path = "../rig/cpu.rs"]
mod cpu;
mod etcd;
#[path = "../rig/rounds.rs"]
mod rounds;
mod server;
mod tables;
mod zookeeper;

use server::Server;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let unknown = arguments.iter().find(|word| !["etcd", "zookeeper"].contains(&word.as_str()));
    assert!(unknown.is_none(), "unknown word {unknown:?}: expected `etcd` or `zookeeper`");
    let wanted = |name| arguments.is_empty() || arguments.iter().any(|word| word == name);
    let servers = [("etcd", Server::etcd as fn() -> Server), ("zookeeper", Server::zookeeper)];
    for (name, start) in servers {
        if !wanted(name) {
            continue;
        }
        let server = start();
        // There is one worker thread, because two workers on one core would wait for each other.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
        runtime.block_on(tables::run(&server, name));
    }
}
