//! The buyers. Each buyer has a connection, and orders again as soon as the answer arrives.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::latency::Latencies;
use crate::shop::{BUYER, REQUEST};

/// The answers to all orders of a sale.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) sold: u64,
    pub(crate) sold_out: u64,
    /// The database refused a late holder.
    pub(crate) late: u64,
    /// The lock was not acquired in time.
    pub(crate) refused: u64,
    /// The lock was lost while the order was served, or the store did not answer.
    pub(crate) lost: u64,
    /// The connection broke before the answer arrived. It is unknown whether the item was sold.
    pub(crate) cut: u64,
    /// All other outcomes.
    pub(crate) failed: u64,
    pub(crate) latencies: Latencies,
}

impl Answers {
    fn count(&mut self, status: u16, took: Duration) {
        match status {
            200 => self.sold += 1,
            410 => self.sold_out += 1,
            412 => self.late += 1,
            409 | 423 => self.refused += 1,
            503 => self.lost += 1,
            _ => self.failed += 1,
        }
        self.latencies.add(took);
    }

    fn add(&mut self, other: &Self) {
        self.sold += other.sold;
        self.sold_out += other.sold_out;
        self.late += other.late;
        self.refused += other.refused;
        self.lost += other.lost;
        self.cut += other.cut;
        self.failed += other.failed;
        self.latencies.merge(&other.latencies);
    }

    /// Returns how many orders were accepted, sold out or refused as late under the lock.
    pub(crate) fn decided(&self) -> u64 {
        self.sold + self.sold_out + self.late
    }
}

/// The pause before a buyer connects again.
const AGAIN: Duration = Duration::from_millis(20);

/// Lets `buyers` people order at `servers` for `time`.
pub(crate) async fn order(servers: &[SocketAddr], path: &str, buyers: usize, time: Duration) -> Answers {
    let until = Instant::now() + time;
    let mut running = JoinSet::new();
    for buyer in 0..buyers {
        let (server, path) = (servers[buyer % servers.len()], path.to_owned());
        running.spawn(async move {
            let mut answers = Answers::default();
            let mut order = 0;
            // A server that no longer answers may restart.
            while buy(server, &path, buyer, until, &mut order, &mut answers).await.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
            answers
        });
    }
    let mut all = Answers::default();
    while let Some(answers) = running.join_next().await {
        match answers {
            Ok(answers) => all.add(&answers),
            Err(_) => all.failed += 1,
        }
    }
    all
}

/// Orders over one connection until the sale is over or the connection breaks.
async fn buy(
    server: SocketAddr,
    path: &str,
    buyer: usize,
    until: Instant,
    order: &mut u64,
    answers: &mut Answers,
) -> std::io::Result<()> {
    if Instant::now() >= until {
        return Ok(());
    }
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let began = Instant::now();
        if began >= until {
            return Ok(());
        }
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {server}\r\n{BUYER}: ann-{buyer}\r\n{REQUEST}: {buyer}-{order}\r\n\
             content-length: 0\r\n\r\n"
        );
        *order += 1;
        let sent = stream.write_all(request.as_bytes()).await;
        match sent.and(status(&mut stream).await) {
            Ok(status) => answers.count(status, began.elapsed()),
            Err(error) => {
                answers.cut += 1;
                return Err(error);
            }
        }
    }
}

/// Reads one answer, and returns its status.
async fn status(stream: &mut BufReader<TcpStream>) -> std::io::Result<u16> {
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0);
        } else if let Some(rest) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = rest.trim().parse().unwrap_or(0);
        } else if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(status)
}
