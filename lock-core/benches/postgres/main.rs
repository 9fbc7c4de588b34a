//! Postgres, compared with its own advisory locks through the same driver.
//!
//! ```sh
//! cargo bench -p lock-core --features postgres --bench postgres              # everything, about three minutes
//! cargo bench -p lock-core --features postgres --bench postgres -- hot       # one of: free hot handoff once
//! ```
//!
//! The server has one core, and all clients have the other, if the machine has two. It does not wait for its disk
//! (`fsync=off`): an advisory lock writes nothing, and what is compared is the work. Advisory locks have no lease, no
//! fencing token and no order that is promised, need a connection for each lock that is waited for, and end with it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

#[path = "../rig/cpu.rs"]
mod cpu;
mod handoff;
mod once;
#[path = "../rig/rounds.rs"]
mod rounds;
mod server;
mod tasks;

use server::Server;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let runtime = || {
        // One worker: two that share a core wait for each other.
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    };
    if arguments.first().is_some_and(|word| word == handoff::ROLE) {
        runtime().block_on(handoff::play(&arguments[1..]));
        return;
    }
    let unknown = arguments.iter().find(|word| !["free", "hot", "handoff", "once"].contains(&word.as_str()));
    assert!(unknown.is_none(), "unknown word {unknown:?}: expected `free`, `hot`, `handoff` or `once`");
    let wanted = |name| arguments.is_empty() || arguments.iter().any(|word| word == name);
    let server = Server::start();
    runtime().block_on(async {
        if wanted("free") {
            tasks::free(&server).await;
        }
        if wanted("hot") {
            tasks::hot(&server).await;
        }
        if wanted("handoff") {
            handoff::processes(&server).await;
        }
        if wanted("once") {
            once::load(&server).await;
        }
    });
}
