//! Compares the library on Postgres with advisory locks of Postgres through the same driver.
//!
//! ```sh
//! cargo bench -p lock-core --features postgres --bench postgres              # everything, about three minutes
//! cargo bench -p lock-core --features postgres --bench postgres -- hot       # one of: free hot handoff once
//! ```
//!
//! The server has one core, and all clients have the other, if the machine has two. The server does not wait for its
//! disk (`fsync=off`), because an advisory lock writes nothing and only the work is compared. Advisory locks have no
//! lease, no fencing token and no guaranteed order. Each awaited advisory lock needs a connection, and ends with that
//! connection.
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
        // There is one worker thread, because two workers on one core would wait for each other.
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
