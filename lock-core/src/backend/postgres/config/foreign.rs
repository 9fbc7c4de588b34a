//! Options that other clients and services write into a URL, and that mean nothing for a lock.

use super::form::FORM;
use crate::error::Result;

/// Options that are ignored, whatever their value: how another client pools and prepares, settings that the store makes
/// in its own way, and options of Postgres for other uses.
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

/// Ignores an option that means nothing for a lock. Returns whether the option is known as such.
pub(super) fn ignores(name: &str, value: &str) -> Result<bool> {
    let ignored = match (name, value) {
        // The certificate of the server is verified with its name, which proves as much.
        ("channel_binding", "disable" | "prefer" | "require") => true,
        ("gssencmode", "disable" | "prefer") => true,
        // The primary is used in any case.
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
