//! Lists locks with their holders and waiters.

use std::time::Duration;

use tokio_postgres::Row;

use super::parameter::{flag, int};
use super::server::Server;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::text;
use crate::backend::{HOLDERS_TOLD, HolderInfo, Listed, LockInfo, Mode, WAITERS_TOLD, WaiterInfo};
use crate::key::Key;
use crate::owner::OwnerRecord;

impl Server {
    /// Lists the locks whose keys begin with `prefix`.
    pub(crate) async fn list(&self, prefix: &str, limit: usize) -> Result<Listed, Failure> {
        // The request is for one lock more than `limit`, to find out whether there are more locks.
        let most = i32::try_from(limit).unwrap_or(i32::MAX).saturating_add(1);
        Ok(Listed::new(self.locks(prefix, false, most).await?, limit))
    }

    /// Returns the holders and waiters of one key.
    pub(crate) async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>, Failure> {
        Ok(self.locks(key.as_str(), true, 1).await?.pop())
    }

    async fn locks(&self, prefix: &str, exact: bool, limit: i32) -> Result<Vec<LockInfo>, Failure> {
        let most = |number: usize| int(i32::try_from(number).unwrap_or(i32::MAX));
        let parameters = vec![text(prefix), flag(exact), int(limit), most(HOLDERS_TOLD), most(WAITERS_TOLD)];
        let (rows, _) = self.rows(&self.shared().statements.list, parameters).await?;
        let mut locks = Vec::new();
        // The rows of a key are adjacent, and the rows of the holders come first.
        for rows in rows.chunk_by(|one, next| one.get::<_, &str>(0) == next.get::<_, &str>(0)) {
            locks.push(info(rows).map_err(|_| Failure::unexpected("another row"))?);
        }
        Ok(locks)
    }
}

/// Reads the rows of one key.
fn info(rows: &[Row]) -> Result<LockInfo, tokio_postgres::Error> {
    let (mut holders, mut waiters, mut mode, mut key) = (Vec::new(), Vec::new(), None, "");
    let (mut holding, mut waiting) = (0, 0);
    let count = |row: &Row| row.try_get::<_, i64>(7).map(|total| usize::try_from(total).unwrap_or(0));
    for row in rows {
        key = row.try_get(0)?;
        let of = row.try_get::<_, &str>(2).map(Mode::from_code)?;
        let who = row.try_get::<_, &str>(4).map(OwnerRecord::from_record)?;
        if row.try_get(1)? {
            waiting = count(row)?;
            waiters.extend(of.map(|of| WaiterInfo::new(who, of)));
        } else {
            holding = count(row)?;
            mode = mode.or(of);
            let left = row.try_get::<_, i64>(5).map(|left| u64::try_from(left).unwrap_or(0))?;
            let kept = row.try_get(6)?;
            let since = row.try_get::<_, Option<i64>>(8)?.and_then(|since| u64::try_from(since).ok());
            let since = since.map(Duration::from_micros);
            let id = row.try_get::<_, &str>(3)?.parse().ok();
            let holder = |id| HolderInfo::new(id, who, Some(Duration::from_micros(left)), kept);
            holders.extend(id.map(|id| holder(id).with_held_since(since)));
        }
    }
    let mode = mode.unwrap_or(crate::backend::Mode::Exclusive);
    Ok(LockInfo::new(key, mode, holders).with_holding(holding).with_waiters(waiting, waiters))
}
