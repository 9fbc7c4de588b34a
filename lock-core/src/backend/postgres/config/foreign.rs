//! Options that other clients and services add to a URL, and that have no meaning for a lock.

use super::form::FORM;
use crate::error::Result;

/// Options that are ignored with any value. They are about pooling and preparing in other clients, about settings that
/// the store chooses itself, or about other uses of Postgres.
const IGNORED: &[&str] = &[
    "client_encoding",
    "connection_limit",
    "fallback_application_name",
    "gsslib",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "pgbouncer",
    "pool_timeout",
    "prepared_statements",
    "sslcompression",
    "sslsni",
    "statement-cache-capacity",
    "statement_cache_capacity",
    "tcp_user_timeout",
];

/// Returns whether an option is ignored because it has no meaning for a lock.
pub(super) fn ignores(name: &str, value: &str) -> Result<bool> {
    let ignored = match (name, value) {
        // The store verifies the server's certificate and name. This proves the identity of the server just as well.
        ("channel_binding", "disable" | "prefer" | "require") => true,
        ("gssencmode", "disable" | "prefer") => true,
        // The store always uses the primary.
        ("target_session_attrs", "any" | "read-write" | "primary" | "prefer-standby") => true,
        ("target_session_attrs", _) => {
            return Err(FORM.invalid(
                "the option `target_session_attrs` of the Postgres URL asks for a server that takes no writes: locks need \
                 the primary (`read-write`)",
            ));
        }
        (name, _) => IGNORED.contains(&name),
    };
    if ignored {
        tracing::debug!(
            option = name,
            "an option of the Postgres URL means nothing for a lock, and is ignored"
        );
    }
    Ok(ignored)
}
