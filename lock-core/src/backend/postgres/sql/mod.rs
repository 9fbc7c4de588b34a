//! The SQL that this backend runs, with the name of its schema.

use super::config::Config;

/// The steps of the migration, in their order. They need a `search_path` of `pg_catalog` alone.
const STEPS: [&str; 12] = [
    include_str!("tables.sql"),
    include_str!("queue.sql"),
    include_str!("free.sql"),
    include_str!("hand_off.sql"),
    include_str!("acquire.sql"),
    include_str!("release.sql"),
    include_str!("attempt.sql"),
    include_str!("together.sql"),
    include_str!("renew.sql"),
    include_str!("verify.sql"),
    include_str!("latch.sql"),
    include_str!("inspect.sql"),
];

/// What sets the `search_path` of a session by hand before the steps, and sets it back after them.
const AROUND: (&str, &str) = (include_str!("begin.sql"), include_str!("end.sql"));

/// The number of the migration that this version needs; see tables.sql.
pub(crate) const VERSION: i32 = 6;

/// The name of the schema in the files.
const NAME: &str = "lock_core";

/// Returns the migration of a schema for a session that somebody has opened by hand.
pub(crate) fn migration(schema: &str) -> String {
    let (before, after) = AROUND;
    [before, &steps(schema), after].concat()
}

/// Returns the migration of a schema, for a transaction that has set the `search_path`.
pub(crate) fn steps(schema: &str) -> String {
    STEPS.concat().replace(NAME, &identifier(schema))
}

/// Returns the name of a schema as the statements write it. It may be a word of SQL.
pub(crate) fn identifier(schema: &str) -> String {
    if schema == NAME { schema.to_owned() } else { format!("\"{schema}\"") }
}

/// The columns of the type `answer`.
const ANSWER: &str = "verdict, now_us, fence, waiting, left_us, record, place, own, queued, mode, number";

/// Returns the text of a statement for a schema, without the lines that explain it: a list of what runs would show them.
fn statement(text: &str, schema: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join(" ").replace(NAME, schema)
}

/// A statement in two forms.
#[derive(Debug)]
pub(crate) struct Forms {
    /// For a session that has the settings of the library from its start.
    own: String,
    /// For any other, such as one that a pooler shares: the function makes the settings, at each call.
    any: String,
}

impl Forms {
    fn new(schema: &str, function: &str, parameters: &str) -> Self {
        Self {
            own: format!("SELECT {schema}.{function}({parameters})"),
            any: format!("SELECT {schema}.{function}_with_settings({parameters})"),
        }
    }

    /// Returns the form for a session: `own` is whether it has the settings of the library.
    pub(crate) fn of(&self, own: bool) -> &str {
        if own { &self.own } else { &self.any }
    }
}

/// The statements, written once for a store. Each is one transaction, and the server keeps the plans
/// of the functions that it calls for the session, whoever uses it next.
#[derive(Debug)]
pub(crate) struct Statements {
    /// For a key that the process released last; see take_alone.sql.
    pub(crate) take_alone: String,
    /// For one key; see attempt.sql.
    pub(crate) attempt: Forms,
    /// For many claims of one key, of several keys, and their heartbeats; see together.sql.
    pub(crate) attempts: String,
    pub(crate) acquire_alls: String,
    pub(crate) heartbeats: String,
    pub(crate) renew: String,
    /// For an exclusive grant of one key; see give_alone.sql.
    pub(crate) give_alone: String,
    /// For a grant of one key that is not kept; see attempt.sql.
    pub(crate) let_go: Forms,
    pub(crate) release: String,
    pub(crate) fence: String,
    pub(crate) downgrade: String,
    pub(crate) latch: String,
    pub(crate) list: String,
    pub(crate) force_release: String,
    pub(crate) sweep: String,
    pub(crate) verify: String,
    pub(crate) version: String,
}

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let schema = identifier(&config.schema);
        let answer = |call: &str| format!("SELECT {ANSWER} FROM {schema}.{call}");
        let call = |call: &str| format!("SELECT {schema}.{call}");
        Self {
            take_alone: statement(include_str!("take_alone.sql"), &schema),
            attempt: Forms::new(&schema, "attempt", "$1, $2, $3, $4, $5, $6, $7, $8"),
            give_alone: statement(include_str!("give_alone.sql"), &schema),
            let_go: Forms::new(&schema, "let_go", "$1, $2, $3"),
            attempts: call("attempts($1, $2, $3, $4, $5, $6, $7, $8)"),
            acquire_alls: call("acquire_alls($1, $2, $3, $4, $5)"),
            heartbeats: call("heartbeats($1, $2, $3, $4, $5)"),
            renew: format!("SELECT number, waiting FROM {schema}.renew($1, $2, $3, $4)"),
            release: call("release($1, $2, $3, $4, $5)::text"),
            fence: answer("fence($1, $2, $3, $4)"),
            downgrade: answer("downgrade($1, $2, $3)"),
            latch: answer("latch($1, $2, $3, $4, $5)"),
            list: format!(
                "SELECT key, waits, mode, id, record, left_us, kept, total FROM {schema}.list($1, $2, $3, $4, $5)"
            ),
            force_release: call("force_release($1, $2)"),
            sweep: format!("SELECT came_to, looked, deleted FROM {schema}.sweep_on($1, $2)"),
            verify: call("verify($1, $2)"),
            version: format!("SELECT number FROM {schema}.version"),
        }
    }

    /// The statements that a session of the library prepares, because they are run often.
    pub(crate) fn often(&self) -> [&str; 8] {
        [
            &self.take_alone,
            &self.give_alone,
            self.attempt.of(true),
            self.let_go.of(true),
            &self.release,
            &self.renew,
            &self.attempts,
            &self.heartbeats,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_named_everywhere() {
        let text = migration("shop_locks");
        assert!(!text.contains(NAME) && text.contains("CREATE SCHEMA \"shop_locks\""));
        for number in [format!("VALUES ({VERSION})"), format!("v.number > {VERSION}")] {
            assert!(text.contains(&number), "the number in tables.sql");
        }
        let config = Config::parse("postgres://h/d?schema=shop_locks").expect("a URL");
        let statements = Statements::new(&config);
        assert_eq!(statements.renew, "SELECT number, waiting FROM \"shop_locks\".renew($1, $2, $3, $4)");
        assert!(!format!("{statements:?}").contains(NAME), "{statements:?}");
        assert!(
            statements.take_alone.starts_with("UPDATE \"shop_locks\".holders h SET owner = $2"),
            "{}",
            statements.take_alone
        );
    }
}
