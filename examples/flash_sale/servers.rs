//! The servers of the shop: one in this process, or several in separate processes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Stdio;

use lock_core::LockManager;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::common::store;
use crate::options::Options;
use crate::shop;
use crate::stock::{Result, Stock};

/// The variable that gives a server the place of the stock, as [`Stock::place`] returns it.
const PLACE: &str = "FLASH_SALE_STOCK";

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[derive(Debug)]
pub(crate) struct Servers {
    locks: LockManager,
    addresses: Vec<SocketAddr>,
    /// The server processes, which end with this process.
    children: Vec<Child>,
}

impl Servers {
    pub(crate) async fn start(options: &Options, stock: &Stock) -> Result<Self> {
        let locks = manager().await?;
        let mut servers = Self { locks, addresses: Vec::new(), children: Vec::new() };
        if options.processes == 1 {
            let listener = TcpListener::bind(ANY_PORT).await?;
            servers.addresses.push(listener.local_addr()?);
            let app = shop::routes(servers.locks.clone(), stock.clone())?;
            tokio::spawn(async move { axum::serve(listener, app).await });
            return Ok(servers);
        }
        if !store::is_shared(servers.store()) {
            return Err(
                "several processes need a store that they share: set LOCK_URL, as for redis://".into()
            );
        }
        for _ in 0..options.processes {
            let (child, address) = spawn(stock, ANY_PORT).await?;
            servers.addresses.push(address);
            servers.children.push(child);
        }
        Ok(servers)
    }

    /// Kills one of the processes with SIGKILL, and restarts it at its address.
    pub(crate) async fn restart(&mut self, number: usize, stock: &Stock) -> Result<()> {
        let (child, address) = (&mut self.children[number], self.addresses[number]);
        child.kill().await?;
        (*child, _) = spawn(stock, address).await?;
        Ok(())
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the locks of this process. If the servers have their own processes, this process is the operator.
    pub(crate) fn locks(&self) -> &LockManager {
        &self.locks
    }

    pub(crate) fn store(&self) -> &'static str {
        self.locks.store()
    }

    pub(crate) async fn stop(mut self) {
        for child in &mut self.children {
            // A server stops when its input ends.
            drop(child.stdin.take());
            let _ = child.wait().await;
        }
        self.locks.shutdown(std::time::Duration::from_secs(2)).await;
    }
}

/// Starts a server in its own process. Returns the address on which it listens.
async fn spawn(stock: &Stock, at: SocketAddr) -> Result<(Child, SocketAddr)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--serve", &at.to_string()])
        // The place is passed as a variable, because it may contain a password and every user of the machine sees
        // arguments.
        .env(PLACE, stock.place())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let said = child.stdout.take().ok_or("a server without an output")?;
    let line = BufReader::new(said).lines().next_line().await?;
    Ok((child, line.ok_or("a server did not start")?.parse()?))
}

async fn manager() -> Result<LockManager> {
    Ok(store::connect().await?.service("flash-sale").build()?)
}

/// Serves in its own process until the input ends.
pub(crate) async fn serve(at: SocketAddr) -> Result<()> {
    let place = std::env::var(PLACE)?;
    let (stock, locks) = (Stock::open(&place).await?, manager().await?);
    let listener = TcpListener::bind(at).await?;
    println!("{}", listener.local_addr()?);
    let app = shop::routes(locks.clone(), stock)?;
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let _ = BufReader::new(tokio::io::stdin()).lines().next_line().await;
    serving.abort();
    locks.shutdown(std::time::Duration::from_secs(2)).await;
    Ok(())
}
