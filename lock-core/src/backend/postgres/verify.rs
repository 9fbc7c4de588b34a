//! Checks a lease inside a transaction of the application.

use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::error::{Failure, LEASE_OVER};
use crate::backend::LeaseCheck;
use crate::error::{LockError, LockErrorKind, LossReason, Result};

/// Runs the check of a lease. If `alive` is false, the check always fails the transaction.
pub(crate) async fn verify(transaction: &Transaction<'_>, check: &LeaseCheck, alive: bool) -> Result<()> {
    let keys = check.keys();
    // No grant has an empty owner token, so the check fails.
    let owner = if alive { check.owner() } else { "" };
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&keys, Type::TEXT_ARRAY), (&owner, Type::TEXT)];
    match transaction.query_typed(check.sql(), &parameters).await {
        Ok(_) => Ok(()),
        Err(error) if error.code().is_some_and(|code| code.code() == LEASE_OVER) => {
            let over = "the database reports that the lease is over, and rolls the transaction back";
            Err(LockError::new(LockErrorKind::Lost, over).with_loss(LossReason::Taken))
        }
        Err(error) => Err(Failure::from_driver(&error).error_of("the transaction that checks the lease")),
    }
}
