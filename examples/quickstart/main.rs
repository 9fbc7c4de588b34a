//! A shop has 100 lamps, and 500 people order one at the same moment.
//!
//! ```sh
//! cargo run -p lock-examples --example quickstart                                                    # locks in memory
//! LOCK_URL=redis://127.0.0.1:6379/ cargo run -p lock-examples --features redis --example quickstart  # the same on Redis
//! LOCK_URL=etcd://127.0.0.1:2379/ cargo run -p lock-examples --features etcd --example quickstart  # the same on etcd
//! cargo run -p lock-examples --example quickstart -- --serve                                         # keep serving
//! ```
//!
//! The service is in `shop.rs`: routes under a `LockLayer`, functions under `#[distributed_lock]`. This file starts the
//! service, sends it the orders, and prints the results. The program exits with status 1 if the shop sold more lamps
//! than it had. The console at `/locks/` shows the locks in a browser.
#![allow(clippy::print_stdout, reason = "the report is what this program is for")]

mod client;
mod report;
mod shop;

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::{HOST, HeaderValue};
use lock_axum::console::{Console, Viewers};
use lock_core::{LockManager, ManagerBuilder};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use report::Burst;
use shop::Shop;

const STOCK: u32 = 100;
const ORDERS: u32 = 500;
const PLACES: u32 = 5;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let serve = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--serve") => true,
        Some(other) => {
            return Err(format!("unknown argument `{other}`: the only argument is `--serve`").into());
        }
    };
    let locks = ManagerBuilder::from_env_or("memory://").await?.service("shop").build()?;
    locks.install()?;
    println!("store       {}", report::store(&locks));

    let shop = Arc::new(Shop::new(STOCK));
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    // The backlog has room for all connections at once. With the usual 128, the other clients would wait for a second.
    let listener = socket.listen(1024)?;
    let address = listener.local_addr()?;
    let app =
        shop::routes(Arc::clone(&shop), locks.clone())?.nest_service("/locks", console(&locks, address));
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    println!("service     http://{address}/");

    if serve {
        println!("console     http://{address}/locks/");
        println!("try         curl -i -X POST http://{address}/orders/lamp/ann");
        println!("            curl -i -X POST http://{address}/jobs/nightly");
        server.await??;
        return Ok(ExitCode::SUCCESS);
    }

    println!("\n{ORDERS} people order one of {STOCK} lamps at the same moment");
    let unlocked = burst(address, &shop, "without a lock", "unlocked").await;
    shop.restock(STOCK);
    let locked = burst(address, &shop, "with the lock", "orders").await;
    shop.restock(STOCK);
    println!("\n{PLACES} places trigger the nightly job at the same moment");
    let jobs = jobs(address).await;

    println!();
    report::burst("without a lock", &unlocked, STOCK);
    report::burst("with the lock", &locked, STOCK);
    report::jobs(&jobs);
    let left = locks.shutdown(Duration::from_secs(2)).await;
    println!("at the end  {} locks held, {} releases unanswered", left.revoked.len(), left.unanswered);
    println!(
        "look next   cargo run -p lock-examples --example quickstart -- --serve    # the locks in a browser"
    );
    println!(
        "            cargo doc -p lock-core -p lock-axum --no-deps --open          # what else there is"
    );
    Ok(if report::is_good(&locked, &jobs, STOCK) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the page that shows the locks. Everyone on this machine may view the page, and release a lock by force. A
/// real service checks the user.
fn console(locks: &LockManager, address: SocketAddr) -> Router {
    // An attacker may point a host name at this machine. A page under that name must not be able to use the console.
    let own = [address.to_string(), format!("localhost:{}", address.port())];
    let is_own = move |host: &HeaderValue| own.iter().any(|own| host == own.as_str());
    let viewers = Viewers::only(move |request| request.headers.get(HOST).is_some_and(&is_own));
    Console::new(locks.clone(), viewers)
        .allow_actions(|_| Some("somebody on this machine".to_owned()))
        .into_router()
}

/// Sends all orders at once, each over its own connection.
async fn burst(address: SocketAddr, shop: &Shop, name: &str, route: &str) -> Burst {
    let mut orders = JoinSet::new();
    for person in 0..ORDERS {
        let path = format!("/{route}/lamp/person-{person}");
        orders.spawn(async move { client::post(address, &path).await });
    }
    let mut burst = Burst::new(shop);
    let mut answered = 0;
    while let Some(answer) = orders.join_next().await {
        burst.count(answer.expect("an order does not panic"));
        answered += 1;
        progress(name, answered);
    }
    burst.sold(shop);
    burst
}

async fn jobs(address: SocketAddr) -> Vec<client::Answer> {
    let mut runs = JoinSet::new();
    for _ in 0..PLACES {
        runs.spawn(async move { client::post(address, "/jobs/nightly").await });
    }
    runs.join_all().await
}

/// Prints the progress. A terminal shows one line that changes. Other outputs get a line for each fifth of the orders.
fn progress(name: &str, answered: u32) {
    let fifth = answered.is_multiple_of(ORDERS / 5);
    if std::io::stdout().is_terminal() {
        print!("\r  {name:<15} {answered:>3} of {ORDERS} answered");
        if answered == ORDERS {
            println!();
        }
        let _ = std::io::stdout().flush();
    } else if fifth {
        println!("  {name:<15} {answered:>3} of {ORDERS} answered");
    }
}
