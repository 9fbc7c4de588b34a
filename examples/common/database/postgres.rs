//! A Postgres server.

use std::fmt;

use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_postgres::config::Host;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};

use super::{Result, Row, Statement, Value};

pub(crate) struct Postgres(Mutex<Client>);

/// Prints no password.
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(parameter).collect()
}

fn parameter(value: &Value) -> &(dyn ToSql + Sync) {
    match value {
        Value::Number(number) => number,
        Value::Text(text) => text,
    }
}

impl Postgres {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let config: Config = url.parse()?;
        let Some(Host::Tcp(host)) = config.get_hosts().first() else {
            return Err("DATABASE_URL names no host: expected `postgres://user@host:5432/database`".into());
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        let (client, connection) = config.connect_raw(stream, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self(Mutex::new(client)))
    }

    pub(super) async fn script(&self, sql: &str) -> Result<()> {
        Ok(self.0.lock().await.batch_execute(sql).await?)
    }

    pub(super) async fn change(&self, sql: &str, values: &[Value]) -> Result<u64> {
        Ok(self.0.lock().await.execute(sql, &parameters(values)).await?)
    }

    pub(super) async fn all_if_first(&self, statements: &[Statement<'_>]) -> Result<bool> {
        let mut client = self.0.lock().await;
        let all = client.transaction().await?;
        for (number, (sql, values)) in statements.iter().enumerate() {
            let changed = all.execute(*sql, &parameters(values)).await?;
            if number == 0 && changed == 0 {
                // The drop of the transaction rolls it back.
                return Ok(false);
            }
        }
        all.commit().await?;
        Ok(true)
    }

    pub(super) async fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let rows = self.0.lock().await.query(sql, &parameters(values)).await?;
        let mut read = Vec::new();
        for row in &rows {
            let mut columns = Vec::new();
            for (number, column) in row.columns().iter().enumerate() {
                columns.push(match *column.type_() {
                    Type::INT8 => Value::Number(row.try_get(number)?),
                    // The literal of `SELECT 1` has this type.
                    Type::INT4 => Value::Number(row.try_get::<_, i32>(number)?.into()),
                    _ => Value::Text(row.try_get(number)?),
                });
            }
            read.push(Row(columns));
        }
        Ok(read)
    }
}
