//! One sale, and its results.

use std::fmt;
use std::time::Duration;

use lock_core::LockManager;

use crate::buyers::{self, Answers};
use crate::latency::Latencies;
use crate::options::Options;
use crate::servers::Servers;
use crate::stock::{Count, Result, Stock};

/// The time between two forced releases by the operator.
const DISTURBED_EVERY: Duration = Duration::from_millis(20);

/// The time between two kills of a server.
const KILLED_EVERY: Duration = Duration::from_millis(700);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sale {
    Guarded,
    /// An operator takes the lock away from its holders.
    Disturbed,
    /// The servers are killed in turn and restarted.
    Killed,
    /// The sale runs without the lock and without the comparison of tokens.
    Careless,
}

#[derive(Debug)]
pub(crate) struct Report {
    sale: Sale,
    seconds: f64,
    stock: i64,
    count: Count,
    answers: Answers,
    /// How often the sale was disturbed.
    disturbed: u64,
}

pub(crate) async fn run(
    sale: Sale,
    options: &Options,
    servers: &mut Servers,
    stock: &Stock,
) -> Result<Report> {
    let path = match sale {
        Sale::Guarded | Sale::Disturbed | Sale::Killed => "/orders/lamp",
        Sale::Careless => "/careless/lamp",
    };
    let time = Duration::from_secs(options.seconds);
    let addresses = servers.addresses().to_vec();
    let ordering = buyers::order(&addresses, path, options.buyers, time);
    tokio::pin!(ordering);
    let mut disturbed = 0;
    let answers = loop {
        tokio::select! {
            answers = &mut ordering => break answers,
            () = pause(sale) => {}
        }
        // The disturbance is outside the `select!`, so that a killed server is restarted even if the sale ends
        // meanwhile. The buyers are separate tasks, and continue.
        disturbed += u64::from(disturb(sale, disturbed, servers, stock).await?);
    };
    let count = stock.count().await?;
    Ok(Report { sale, seconds: time.as_secs_f64(), stock: options.stock.into(), count, answers, disturbed })
}

/// Waits until the next disturbance of the sale is due.
async fn pause(sale: Sale) {
    match sale {
        Sale::Guarded | Sale::Careless => std::future::pending().await,
        Sale::Disturbed => tokio::time::sleep(DISTURBED_EVERY).await,
        Sale::Killed => tokio::time::sleep(KILLED_EVERY).await,
    }
}

/// Disturbs the sale. Returns whether the disturbance had an effect.
async fn disturb(sale: Sale, times: u64, servers: &mut Servers, stock: &Stock) -> Result<bool> {
    match sale {
        Sale::Guarded | Sale::Careless => Ok(false),
        Sale::Disturbed => Ok(take_away(servers.locks()).await),
        Sale::Killed => {
            let number = usize::try_from(times)? % servers.addresses().len();
            servers.restart(number, stock).await?;
            Ok(true)
        }
    }
}

/// Takes the lock away from its holder. Returns whether the lock was held.
async fn take_away(locks: &LockManager) -> bool {
    let Ok(Some(lock)) = locks.inspect("item:lamp").await else { return false };
    let Some(holder) = lock.holders.first() else { return false };
    locks.force_release("item:lamp", &holder.id, "to show what the database does").await.unwrap_or(false)
}

impl Report {
    pub(crate) const HEADER: &'static str = "sale           decided/s   mean ms    p50 ms    p99 ms      sold  sold out \
                                             refused   late  lost    cut  failed  oversold  lost orders";

    pub(crate) fn name(&self) -> &'static str {
        match self.sale {
            Sale::Guarded => "with the lock",
            Sale::Disturbed => "taken away",
            Sale::Killed => "killed",
            Sale::Careless => "careless",
        }
    }

    pub(crate) fn latency(&self) -> &Latencies {
        &self.answers.latencies
    }

    /// Returns how many orders were recorded beyond the stock.
    fn oversold(&self) -> i64 {
        (self.count.orders - self.stock).max(0)
    }

    /// Returns the number of lost orders. An order is lost if another update overwrote its update of the stock, or if
    /// it was confirmed but not recorded.
    fn lost_orders(&self) -> i64 {
        let overwritten = (self.stock - self.count.remaining - self.count.orders).abs();
        let confirmed = i64::try_from(self.answers.sold).unwrap_or(i64::MAX);
        overwritten.max(confirmed - self.count.orders)
    }

    /// Returns how many recorded orders were neither confirmed, nor answered as lost, nor cut off.
    fn unasked(&self) -> i64 {
        let answers = &self.answers;
        let asked = i64::try_from(answers.sold + answers.lost + answers.cut).unwrap_or(i64::MAX);
        (self.count.orders - asked).max(0)
    }

    pub(crate) fn is_good(&self) -> bool {
        let was_cut = self.answers.cut > 0 && self.sale != Sale::Killed;
        self.sale == Sale::Careless
            || (self.oversold() + self.lost_orders() + self.unasked() == 0
                && self.answers.failed == 0
                && !was_cut)
    }
}

impl fmt::Display for Report {
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answers, ms) = (&self.answers, |time: Duration| time.as_secs_f64() * 1e3);
        write!(
            f,
            "{:<14} {:>9.0} {:>9.2} {:>9.2} {:>9.2} {:>9} {:>9} {:>7} {:>6} {:>5} {:>6} {:>7} {:>9} {:>12}",
            self.name(),
            answers.decided() as f64 / self.seconds,
            ms(answers.latencies.mean()),
            ms(answers.latencies.quantile(500)),
            ms(answers.latencies.quantile(990)),
            self.count.orders,
            answers.sold_out,
            answers.refused,
            answers.late,
            answers.lost,
            answers.cut,
            answers.failed,
            self.oversold(),
            self.lost_orders(),
        )?;
        match self.sale {
            Sale::Disturbed => write!(f, "\n               the lock was taken away {} times", self.disturbed),
            Sale::Killed => write!(f, "\n               a server was killed {} times", self.disturbed),
            Sale::Guarded | Sale::Careless => Ok(()),
        }
    }
}
