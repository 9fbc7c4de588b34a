//! The check of a lease inside a transaction of the application.

use std::fmt;

use super::Claim;
use crate::owner::OwnerToken;

/// The statement that locks a lease for the rest of a transaction. If the lease is over, the statement makes the
/// transaction fail. This check needs a store whose tables are in the application's own database.
///
/// The statement has two parameters: `$1` is the [keys](Self::keys), an array of text, and `$2` is the
/// [owner](Self::owner), a text. The statement must run before the commit, in the transaction that writes the protected
/// data. If the statement fails, the transaction is aborted and cannot be committed.
///
/// # Examples
///
/// With sqlx 0.9:
///
/// ```text
/// let check = guard.lease_check()?;
/// sqlx::query(sqlx::AssertSqlSafe(check.sql())).bind(check.keys()).bind(check.owner()).execute(&mut *transaction).await?;
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseCheck {
    sql: String,
    keys: Vec<String>,
    owner: OwnerToken,
}

impl LeaseCheck {
    /// Makes the check of a claim, for authors of backends.
    #[must_use]
    pub fn new(sql: impl Into<String>, claim: &Claim) -> Self {
        let keys = claim.keys().map(|key| key.as_str().to_owned()).collect();
        Self { sql: sql.into(), keys, owner: claim.owner.token() }
    }

    /// Returns the statement.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the first parameter: the keys of the lock, as they are stored.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns the second parameter: the token of the owner, which is a secret between the process and the store.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.owner.as_str()
    }
}

impl fmt::Debug for LeaseCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCheck")
            .field("sql", &self.sql)
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}
