//! A stock on a Postgres server.

use std::fmt;

use tokio::net::TcpStream;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::database::{COUNT, LOOK, NOTE, Order, Result, SCHEMA, TAKE, Taken, WRITE};

pub(crate) struct Postgres {
    url: String,
    client: Client,
    take: Statement,
    look: Statement,
    write: Statement,
    note: Statement,
}

/// Prints no password.
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Postgres {
    pub(super) async fn connect(url: &str, make: bool) -> Result<Self> {
        let config: Config = url.parse()?;
        let Some(Host::Tcp(host)) = config.get_hosts().first() else {
            return Err("STOCK_URL names no host: expected `postgres://user@host:5432/database`".into());
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        let (client, connection) = config.connect_raw(stream, NoTls).await?;
        tokio::spawn(connection);
        if make {
            client.batch_execute(SCHEMA).await?;
        }
        // Both changes are one statement, so they are one transaction and one round trip.
        let take = format!(
            "WITH taken AS ({TAKE}), noted AS (INSERT INTO flash_orders (item, buyer, request) \
             SELECT $1, $3, $4 FROM taken) SELECT remaining FROM taken"
        );
        let (take, look) = (client.prepare(&take).await?, client.prepare(LOOK).await?);
        let (write, note) = (client.prepare(WRITE).await?, client.prepare(NOTE).await?);
        Ok(Self { url: url.to_owned(), client, take, look, write, note })
    }

    pub(super) fn place(&self) -> String {
        self.url.clone()
    }

    pub(super) async fn execute(&self, sql: &str) -> Result<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn take(&self, order: Order<'_>, fence: i64) -> Result<Taken> {
        let Order { item, buyer, request } = order;
        if self.client.query_opt(&self.take, &[&item, &fence, &buyer, &request]).await?.is_some() {
            return Ok(Taken::Sold);
        }
        let row = self.client.query_one(&self.look, &[&item]).await?;
        Ok(Taken::not(row.get(0), row.get(1), fence))
    }

    pub(super) async fn remaining(&self, item: &str) -> Result<i64> {
        Ok(self.client.query_one(&self.look, &[&item]).await?.get(0))
    }

    pub(super) async fn write(&self, order: Order<'_>, remaining: i64) -> Result<()> {
        let Order { item, buyer, request } = order;
        self.client.execute(&self.write, &[&item, &remaining]).await?;
        self.client.execute(&self.note, &[&item, &buyer, &request]).await?;
        Ok(())
    }

    pub(super) async fn count(&self, item: &str) -> Result<(i64, i64)> {
        let row = self.client.query_one(COUNT, &[&item]).await?;
        Ok((row.get(0), row.get(1)))
    }
}
