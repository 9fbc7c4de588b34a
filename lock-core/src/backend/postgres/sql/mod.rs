//! The SQL that this backend runs, with the name of its schema.

use super::config::Config;

/// The files of the migration, in their order.
const FILES: [&str; 13] = [
    include_str!("begin.sql"),
    include_str!("tables.sql"),
    include_str!("queue.sql"),
    include_str!("free.sql"),
    include_str!("hand_off.sql"),
    include_str!("acquire.sql"),
    include_str!("release.sql"),
    include_str!("groups.sql"),
    include_str!("renew.sql"),
    include_str!("verify.sql"),
    include_str!("latch.sql"),
    include_str!("inspect.sql"),
    include_str!("end.sql"),
];

/// The number of the migration that this version needs; see tables.sql.
pub(crate) const VERSION: i32 = 4;

/// The name of the schema in the files.
const NAME: &str = "lock_core";

/// Returns the migration for a schema.
pub(crate) fn migration(schema: &str) -> String {
    FILES.concat().replace(NAME, &identifier(schema))
}

/// Returns the name of a schema as the statements write it. It may be a word of SQL.
pub(crate) fn identifier(schema: &str) -> String {
    if schema == NAME { schema.to_owned() } else { format!("\"{schema}\"") }
}

/// The columns of the type `answer`.
const ANSWER: &str = "verdict, now_us, fence, waiting, left_us, record, place, own, queued, mode, number";

/// A statement in two forms.
#[derive(Debug)]
pub(crate) struct Forms {
    /// For a session that has the settings of the library from its start.
    own: String,
    /// For any other, such as one that a pooler shares: the functions make the settings, at each call.
    any: String,
}

impl Forms {
    /// Returns the form for a session: `own` is whether it has the settings of the library.
    pub(crate) fn of(&self, own: bool) -> &str {
        if own { &self.own } else { &self.any }
    }
}

/// The statements, written once for a store. Each is one round trip and one transaction, and the server keeps the plans
/// of the functions that it calls for the session, whoever uses it next.
#[derive(Debug)]
pub(crate) struct Statements {
    /// Tries the short way, and else goes the long one; see free.sql.
    pub(crate) acquire: Forms,
    /// As `acquire`, for an exclusive claim that is to be queued; see hand_off.sql.
    pub(crate) enqueue: Forms,
    /// As `enqueue`, for a claim that shares a grant where it stands directly behind that; see groups.sql. The free key
    /// comes first: it costs no more than without groups, and where others wait there is one request for many.
    pub(crate) enqueue_shared: Forms,
    pub(crate) acquire_all: String,
    pub(crate) heartbeat: String,
    pub(crate) renew: String,
    /// As `acquire`, for one key that is not kept.
    pub(crate) release_one: Forms,
    /// As `release_one`, where others probably wait.
    pub(crate) release_in_order: Forms,
    pub(crate) release: String,
    /// As `release_one`, where the grant has a successor; see groups.sql.
    pub(crate) release_to: String,
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
        let forms = |text: &dyn Fn(&str) -> String| Forms { own: text(""), any: text("_with_settings") };
        Self {
            acquire: forms(&|settings| {
                format!(
                    "SELECT coalesce({schema}.take_free{settings}($1, $2, $3, $4, $5, $6), \
                     {schema}.acquire_flat($1, $2, $3, $4, $5, $6, $7, $8))"
                )
            }),
            enqueue: forms(&|settings| {
                format!(
                    "SELECT coalesce({schema}.enqueue{settings}($1, $2, $3, $5, $6, $7, $8), \
                     {schema}.acquire_flat($1, $2, $3, $4, $5, $6, $7, $8))"
                )
            }),
            enqueue_shared: forms(&|settings| {
                format!(
                    "SELECT coalesce({schema}.take_free{settings}($1, $2, $3, $4, $5, $6), \
                     {schema}.stands_behind{settings}($1, $2), \
                     {schema}.enqueue{settings}($1, $2, $3, $5, $6, $7, $8), \
                     {schema}.acquire_flat($1, $2, $3, $4, $5, $6, $7, $8))"
                )
            }),
            release_one: forms(&|settings| {
                format!(
                    "SELECT coalesce({schema}.give_back{settings}($1, $2)::text, {schema}.hand_off{settings}($1, $2), \
                     {schema}.release(ARRAY[$1], $2, $3, NULL, 0)::text)"
                )
            }),
            release_in_order: forms(&|settings| {
                format!(
                    "SELECT coalesce({schema}.hand_off{settings}($1, $2), \
                     {schema}.release(ARRAY[$1], $2, $3, NULL, 0)::text)"
                )
            }),
            acquire_all: answer("acquire_all($1, $2, $3, $4, $5)"),
            heartbeat: answer("heartbeat($1, $2, $3, $4, $5)"),
            renew: format!("SELECT number, waiting FROM {schema}.renew($1, $2, $3, $4)"),
            release: call("release($1, $2, $3, $4, $5)::text"),
            release_to: call("release_to($1, $2, $3, $4, $5)"),
            fence: answer("fence($1, $2, $3, $4)"),
            downgrade: answer("downgrade($1, $2, $3)"),
            latch: answer("latch($1, $2, $3, $4, $5)"),
            list: format!(
                "SELECT key, waits, mode, id, record, left_us, kept, total FROM {schema}.list($1, $2, $3, $4, $5)"
            ),
            force_release: call("force_release($1, $2)"),
            sweep: call("sweep($1)"),
            verify: call("verify($1, $2)"),
            version: format!("SELECT number FROM {schema}.version"),
        }
    }

    /// The statements that a session of the library prepares, because they are run often.
    pub(crate) fn often(&self) -> [&str; 8] {
        [
            self.acquire.of(true),
            self.release_one.of(true),
            self.enqueue.of(true),
            self.enqueue_shared.of(true),
            self.release_in_order.of(true),
            &self.release,
            &self.renew,
            &self.heartbeat,
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
    }
}
