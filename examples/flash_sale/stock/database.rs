//! The stock, on a Postgres server or in a file.

use std::sync::Arc;

use super::postgres::Postgres;
use super::sqlite::Sqlite;
use crate::common::variable;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The tables. `fence` is the largest token that has written to the row.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS flash_stock (item TEXT PRIMARY KEY, remaining BIGINT NOT NULL, fence BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS flash_orders (item TEXT NOT NULL, buyer TEXT NOT NULL, request TEXT NOT NULL);
";
/// Takes one item. The statement changes no row if there is no item, or if a later holder has written.
pub(super) const TAKE: &str = "UPDATE flash_stock SET remaining = remaining - 1, fence = $2 \
    WHERE item = $1 AND remaining > 0 AND fence <= $2 RETURNING remaining";
pub(super) const LOOK: &str = "SELECT remaining, fence FROM flash_stock WHERE item = $1";
/// Writes a number that an unprotected shop has computed from an earlier read.
pub(super) const WRITE: &str = "UPDATE flash_stock SET remaining = $2 WHERE item = $1";
pub(super) const NOTE: &str = "INSERT INTO flash_orders (item, buyer, request) VALUES ($1, $2, $3)";
pub(super) const COUNT: &str = "SELECT (SELECT remaining FROM flash_stock WHERE item = $1), \
    (SELECT count(*) FROM flash_orders WHERE item = $1)";

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Sold,
    SoldOut,
    /// A later holder of the lock has written.
    Late,
}

impl Taken {
    /// Returns the reason why no item was taken.
    pub(super) fn not(remaining: i64, seen: i64, fence: i64) -> Self {
        if remaining > 0 && seen > fence { Self::Late } else { Self::SoldOut }
    }
}

/// An order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    pub(crate) item: &'a str,
    pub(crate) buyer: &'a str,
    pub(crate) request: &'a str,
}

/// The remaining items, and the number of recorded orders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) remaining: i64,
    pub(crate) orders: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum Stock {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

impl Stock {
    pub(crate) const ITEM: &'static str = "lamp";

    /// Creates the tables, on the server that `STOCK_URL` names or else in a new file.
    pub(crate) async fn make() -> Result<Self> {
        if let Some(url) = variable::read("STOCK_URL")? {
            let stock = Postgres::connect(&url, true).await?;
            return Ok(Self::Postgres(Arc::new(stock)));
        }
        let file = std::env::temp_dir().join(format!("flash_sale.{}.db", std::process::id()));
        Ok(Self::Sqlite(Arc::new(Sqlite::open(&file, true)?)))
    }

    /// Opens the stock at `place`, which [`place`](Self::place) returned in another process.
    pub(crate) async fn open(place: &str) -> Result<Self> {
        if place.starts_with("postgres") {
            return Ok(Self::Postgres(Arc::new(Postgres::connect(place, false).await?)));
        }
        Ok(Self::Sqlite(Arc::new(Sqlite::open(place.as_ref(), false)?)))
    }

    /// Returns the place of the stock, for [`open`](Self::open).
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(sqlite) => sqlite.place(),
            Self::Postgres(postgres) => postgres.place(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "in a file of SQLite",
            Self::Postgres(_) => "in Postgres",
        }
    }

    pub(crate) async fn restock(&self, remaining: u32) -> Result<()> {
        let sql = format!(
            "DELETE FROM flash_orders; DELETE FROM flash_stock; INSERT INTO flash_stock VALUES ('{}', {remaining}, 0);",
            Self::ITEM
        );
        match self {
            Self::Sqlite(sqlite) => sqlite.execute(&sql),
            Self::Postgres(postgres) => postgres.execute(&sql).await,
        }
    }

    /// Takes one item for an order under a lock with the fencing token `fence`.
    pub(crate) async fn take(&self, order: Order<'_>, fence: i64) -> Result<Taken> {
        match self {
            Self::Sqlite(sqlite) => sqlite.take(order, fence),
            Self::Postgres(postgres) => postgres.take(order, fence).await,
        }
    }

    /// Takes one item without regard to other orders that are served at the same time.
    pub(crate) async fn take_carelessly(&self, order: Order<'_>) -> Result<Taken> {
        let remaining = match self {
            Self::Sqlite(sqlite) => sqlite.remaining(order.item)?,
            Self::Postgres(postgres) => postgres.remaining(order.item).await?,
        };
        if remaining <= 0 {
            return Ok(Taken::SoldOut);
        }
        // Other orders read the same number during this pause.
        tokio::task::yield_now().await;
        match self {
            Self::Sqlite(sqlite) => sqlite.write(order, remaining - 1)?,
            Self::Postgres(postgres) => postgres.write(order, remaining - 1).await?,
        }
        Ok(Taken::Sold)
    }

    pub(crate) async fn count(&self) -> Result<Count> {
        let (remaining, orders) = match self {
            Self::Sqlite(sqlite) => sqlite.count(Self::ITEM)?,
            Self::Postgres(postgres) => postgres.count(Self::ITEM).await?,
        };
        Ok(Count { remaining, orders })
    }
}
