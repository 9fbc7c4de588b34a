//! A flash sale: many people order the same item at the same time, over HTTP.
//!
//! ```sh
//! cargo run --release -p lock-examples --features databases --example flash_sale
//! LOCK_URL=redis://127.0.0.1:6379/ STOCK_URL=postgres://postgres@127.0.0.1/postgres \
//!     cargo run --release -p lock-examples --features databases,redis --example flash_sale -- --seconds 60 --processes 4
//! ```
//!
//! | option | means | default |
//! | --- | --- | --- |
//! | `--seconds` | how long each of the sales takes | 2 |
//! | `--buyers` | how many people order at the same time | 128 |
//! | `--stock` | how many items there are; people continue to order when all are sold | 20000 |
//! | `--processes` | how many servers sell; more than one need a store of locks that they share | 1 |
//! | `--svg` | the file of the histogram of the latencies | `flash_sale.svg` in the temporary folder |
//!
//! `STOCK_URL` names the Postgres server with the stock. Without it, the stock is in a file of SQLite. This program
//! makes the tables, and empties them.
//!
//! Each order passes two lines of defence. First, `shop.rs` mounts a `LockLayer`, so all servers together serve one
//! order for an item at a time. The ttl is 500 ms, and an order that waits for more than 100 ms is refused. Second,
//! `stock/database.rs` takes an item out of the stock with a statement that compares fencing tokens: the token of the
//! lock with the largest token that has written to the row. The program sells several times and prints the results:
//!
//! 1. with the lock;
//! 2. with the lock, while an operator takes the lock from its holder again and again: the database refuses late
//!    holders;
//! 3. if there are several servers: with the lock, while the servers are killed in turn (`kill -9`) and restarted,
//!    even a server that holds the lock;
//! 4. without the lock and without the comparison: this sells more items than there are.
//!
//! The program exits with status 1 if any sale but the last sold too much, or lost an order.
#![allow(clippy::print_stdout, reason = "the report is what this program is for")]
#![allow(clippy::disallowed_methods, reason = "the demonstration measures real time")]

mod buyers;
#[path = "../common/mod.rs"]
mod common;
mod latency;
mod options;
mod sale;
mod servers;
mod shop;
mod stock;

use std::process::ExitCode;

use options::Options;
use sale::{Report, Sale};
use servers::Servers;
use stock::Stock;

#[tokio::main]
async fn main() -> stock::Result<ExitCode> {
    let options = Options::from_args(std::env::args().skip(1))?;
    if let Some(address) = options.serve {
        servers::serve(address).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let stock = Stock::make().await?;
    let mut servers = Servers::start(&options, &stock).await?;
    println!("locks     {}", servers.store());
    println!("stock     {} {}", options.stock, stock.name());
    println!(
        "servers   {}, buyers {}, {} s for each sale\n",
        options.processes, options.buyers, options.seconds
    );
    println!("{}", Report::HEADER);
    let mut good = true;
    let mut all = Vec::new();
    let sales = [Sale::Guarded, Sale::Disturbed, Sale::Killed, Sale::Careless];
    for sale in sales.into_iter().filter(|sale| *sale != Sale::Killed || options.processes > 1) {
        stock.restock(options.stock).await?;
        let report = sale::run(sale, &options, &mut servers, &stock).await?;
        println!("{report}");
        good &= report.is_good();
        all.push(report);
    }
    let svg = latency::chart(all.iter().map(|report| (report.name(), report.latency())));
    std::fs::write(&options.svg, svg)?;
    println!("\nlatencies {}", options.svg.display());
    servers.stop().await;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
