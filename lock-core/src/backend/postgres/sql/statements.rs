//! Builds the SQL statements that the store sends.

use super::migration::identifier;
use crate::backend::postgres::config::Config;

/// The statements of a store, built once. Each statement is one transaction. The server keeps the plans of the
/// functions that its statements call, as long as the session lasts, even if a pooler assigns the session to another
/// client.
#[derive(Debug)]
pub(crate) struct Statements {
    /// One attempt at one key, for a session with the settings of the library; see attempt.sql.
    pub(crate) attempt: String,
    /// Many attempts at one key; see together.sql.
    pub(crate) attempts: String,
    /// Many attempts at several keys.
    pub(crate) acquire_alls: String,
    /// The heartbeats of waiters.
    pub(crate) heartbeats: String,
    pub(crate) renew: String,
    /// The release of one key that does not stay locked afterwards, for a session with the settings of the library; see
    /// attempt.sql.
    pub(crate) let_go: String,
    /// The same release as `let_go`, for any other session, such as one that a pooler shares.
    pub(crate) let_go_with_settings: String,
    pub(crate) release: String,
    pub(crate) fence: String,
    pub(crate) downgrade: String,
    pub(crate) latch: String,
    pub(crate) list: String,
    pub(crate) force_release: String,
    pub(crate) sweep: String,
    pub(crate) verify: String,
    pub(crate) version: String,
    /// A write that changes nothing, and that a standby refuses.
    pub(crate) ping: String,
    /// The facts about the server, for any session; see doctor.sql.
    pub(crate) doctor: String,
}

/// The operators that doctor.sql contains without a schema.
const OPERATORS: [&str; 3] = ["=", "<>", "-"];

/// Returns the statement of doctor.sql. Adds the schema `pg_catalog` to its operators, so that a session with any
/// `search_path` uses the operators of Postgres.
fn doctor() -> String {
    let text: String = include_str!("doctor.sql")
        .lines()
        .filter(|line| !line.starts_with("--"))
        .fold(String::new(), |text, line| text + line + "\n");
    OPERATORS.into_iter().fold(text, |text, operator| {
        text.replace(&format!(" {operator} "), &format!(" OPERATOR(pg_catalog.{operator}) "))
    })
}

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let schema = identifier(&config.schema);
        let answer = |call: &str| format!("SELECT {schema}.flat({schema}.{call})");
        let call = |call: &str| format!("SELECT {schema}.{call}");
        Self {
            attempt: call("attempt($1, $2, $3, $4, $5, $6, $7, $8)"),
            attempts: call("attempts($1, $2, $3, $4, $5, $6, $7, $8)"),
            acquire_alls: call("acquire_alls($1, $2, $3, $4, $5)"),
            heartbeats: call("heartbeats($1, $2, $3, $4, $5)"),
            renew: format!("SELECT number, waiting FROM {schema}.renew($1, $2, $3, $4)"),
            let_go: call("let_go($1, $2, $3)"),
            let_go_with_settings: call("let_go_with_settings($1, $2, $3)"),
            release: call("release($1, $2, $3, $4, $5)::text"),
            fence: answer("fence($1, $2, $3, $4)"),
            downgrade: answer("downgrade($1, $2, $3)"),
            latch: answer("latch($1, $2, $3, $4, $5)"),
            list: format!(
                "SELECT key, waits, mode, id, record, left_us, kept, total, since_us FROM {schema}.list($1, $2, $3, $4, $5)"
            ),
            force_release: call("force_release($1, $2)"),
            sweep: format!("SELECT came_to, looked, deleted FROM {schema}.sweep($1, $2)"),
            verify: call("verify($1, $2)"),
            version: format!("SELECT number FROM {schema}.version"),
            ping: format!("DELETE FROM {schema}.latch_counts WHERE false"),
            doctor: doctor(),
        }
    }

    /// Returns the statements that a session of the library prepares, because they run often.
    pub(crate) fn often(&self) -> [&str; 6] {
        [&self.attempt, &self.let_go, &self.release, &self.renew, &self.attempts, &self.heartbeats]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_in_every_statement() {
        let config = Config::parse("postgres://h/d?schema=shop_locks").expect("a URL");
        let statements = Statements::new(&config);
        assert_eq!(statements.renew, "SELECT number, waiting FROM \"shop_locks\".renew($1, $2, $3, $4)");
        assert!(!format!("{statements:?}").contains("lock_core"), "{statements:?}");
    }

    /// Without the library's `search_path`, a session could call functions that other users created in `public`.
    #[test]
    fn the_doctor_looks_every_name_up_in_one_place() {
        let text = doctor();
        for (at, _) in text.match_indices("pg_") {
            let (before, from) = text.split_at(at);
            let has_schema = ["pg_catalog.", "'"].iter().any(|end| before.ends_with(end));
            assert!(has_schema || from.starts_with("pg_catalog."), "{from}");
        }
        for word in [" count(", "::text", "::name", "--"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        for operator in ["=", "<", ">", "-", "+", "*", "/", "||", "~", "%", "LIKE", "IN"] {
            assert!(!text.contains(&format!(" {operator} ")), "{operator}: {text}");
        }
        assert_eq!(text.matches("OPERATOR(pg_catalog.-)").count(), 3);
    }
}
