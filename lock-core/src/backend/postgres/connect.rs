//! Chooses one of the two Postgres stores by the URL.

use std::sync::Arc;

use super::advisory::PostgresAdvisory;
use super::backend::Postgres;
use super::config::Config;
use crate::backend::DynBackend;
use crate::error::Result;

/// Connects to the store that a URL names: leases in tables, or advisory locks with `mode=advisory`.
pub(crate) async fn connect(url: &str) -> Result<Arc<dyn DynBackend>> {
    let config = Config::parse(url)?;
    if config.advisory {
        return Ok(Arc::new(PostgresAdvisory::open(config).await?));
    }
    Ok(Arc::new(Postgres::open(config).await?))
}
