//! The report that the program prints.

use std::time::{Duration, Instant};

use lock_core::LockManager;

use crate::client::Answer;
use crate::shop::Shop;

/// The results of one burst of orders.
#[derive(Debug)]
pub(crate) struct Burst {
    accepted: u64,
    sold_out: u64,
    refused: u64,
    lost: u64,
    failed: Vec<Answer>,
    sold: u64,
    longest_wait: Duration,
    began: Instant,
    took: Duration,
}

impl Burst {
    #[allow(clippy::disallowed_methods, reason = "the demonstration measures how long the burst takes")]
    pub(crate) fn new(shop: &Shop) -> Self {
        Self {
            accepted: 0,
            sold_out: 0,
            refused: 0,
            lost: 0,
            failed: Vec::new(),
            sold: shop.sold(),
            longest_wait: Duration::ZERO,
            began: Instant::now(),
            took: Duration::ZERO,
        }
    }

    pub(crate) fn count(&mut self, answer: Answer) {
        match answer.status {
            200 => self.accepted += 1,
            410 => self.sold_out += 1,
            409 => self.refused += 1,
            503 if answer.body.contains("lost") => self.lost += 1,
            _ => self.failed.push(answer),
        }
    }

    pub(crate) fn sold(&mut self, shop: &Shop) {
        self.sold = shop.sold();
        self.longest_wait = shop.longest_wait();
        self.took = self.began.elapsed();
    }

    fn oversold(&self, stock: u32) -> u64 {
        self.sold.saturating_sub(stock.into())
    }
}

pub(crate) fn store(locks: &LockManager) -> String {
    match locks.store() {
        "memory" => "memory (this process only; for a store that machines share: LOCK_URL=redis://.. and --features redis)".to_owned(),
        other => other.to_owned(),
    }
}

pub(crate) fn burst(name: &str, burst: &Burst, stock: u32) {
    println!("{name}");
    println!("  accepted      {:>4}", burst.accepted);
    println!(
        "  refused       {:>4}   sold out {}, lock not free in time {}",
        burst.sold_out + burst.refused,
        burst.sold_out,
        burst.refused
    );
    println!("  oversold      {:>4}", burst.oversold(stock));
    println!("  lost locks    {:>4}", burst.lost);
    if !burst.longest_wait.is_zero() {
        println!("  longest wait  {:>4} ms", burst.longest_wait.as_millis());
    }
    println!("  took          {:>4} ms", burst.took.as_millis());
    if let Some(first) = burst.failed.first() {
        println!("  failed        {:>4}   {} {}", burst.failed.len(), first.status, first.body);
    }
}

pub(crate) fn jobs(answers: &[Answer]) {
    let ran = ran(answers);
    println!("the nightly job");
    println!("  ran           {ran:>4}");
    println!("  skipped       {:>4}", answers.iter().filter(|answer| answer.status == 409).count());
    if let Some(refused) = answers.iter().find(|answer| answer.status == 409) {
        println!("  {}", refused.body);
    }
    for failed in answers.iter().filter(|answer| !matches!(answer.status, 200 | 409)) {
        println!("  failed        {} {}", failed.status, failed.body);
    }
}

fn ran(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.status == 200).count()
}

/// Returns whether the locks worked: exactly the lamps in stock were sold, and the job ran once.
pub(crate) fn is_good(locked: &Burst, jobs: &[Answer], stock: u32) -> bool {
    locked.oversold(stock) == 0
        && locked.sold == u64::from(stock)
        && locked.accepted == locked.sold
        && locked.lost == 0
        && locked.failed.is_empty()
        && ran(jobs) == 1
}
