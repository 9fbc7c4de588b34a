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

/// Ignores an option that has no meaning for a lock. Returns whether the option is in the list.
pub(super) fn ignores(name: &str, value: &str) -> Result<bool> {
    let ignored = match (name, value) {
        // The certificate of the server is verified together with its name, which is an equivalent proof.
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
