//! The history of holds under load, while connections are killed and tables are locked.

use std::time::Duration;

use fastrand::Rng;
use lock_core::LockManager;
use lock_core::testkit::history::{History, Violation};
use lock_tests::{PATIENCE, PostgresServer};

use crate::load::{End, Load, count};
use crate::support::{empty, manager, ms};

const TTL: Duration = ms(1_000);

/// Runs four workers for each manager.
async fn load(managers: &[LockManager], time: Duration, end: End) -> History {
    Load::exclusive(TTL, time).run(managers, 4, end, &mut Rng::new()).await
}

/// Repeatedly kills every connection, locks the tables and cancels statements.
async fn torment(server: &PostgresServer) {
    let others = "FROM pg_stat_activity WHERE application_name = 'lock-core'";
    let faults = [
        format!("SELECT pg_terminate_backend(pid) {others}"),
        "LOCK TABLE lock_core.keys IN EXCLUSIVE MODE; SELECT pg_sleep(0.05)".to_owned(),
        format!("SELECT pg_cancel_backend(pid) {others}"),
        "LOCK TABLE lock_core.holders IN EXCLUSIVE MODE; SELECT pg_sleep(0.05)".to_owned(),
    ];
    for fault in faults.iter().cycle() {
        tokio::time::sleep(ms(130)).await;
        tokio::task::block_in_place(|| server.sql(fault));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_at_a_time_and_tokens_in_order_whatever_happens_to_connections() {
    let server = PostgresServer::start();
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager(&server).await);
    }
    let time = Duration::from_secs(9);
    let history = tokio::select! {
        history = load(&managers, time, End::With(250, time, 20 * time)) => history,
        () = torment(&server) => unreachable!("it never ends"),
    };
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
    let (holds, fenced) = count(&history);
    assert!(holds > 200 && fenced > 100, "{holds} holds, {fenced} with a token");
    for locks in &managers {
        locks.shutdown(Duration::from_secs(5)).await;
    }
    empty(&server, PATIENCE).await;
}

/// The duration of the load on a server whose functions were changed.
const SPAN: Duration = Duration::from_secs(3);

/// Runs load on a server whose functions were changed, and returns the result of the check.
async fn load_on(change: &str) -> Result<(), Violation> {
    let server = PostgresServer::start();
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager(&server).await);
    }
    // The change comes after the migration, which would undo it.
    server.sql(change);
    load(&managers, SPAN, End::After(SPAN)).await.check()
}

/// Repeats [`load_on`] until the check finds a violation. A wrong server does not show its fault in every three
/// seconds.
async fn violation_on(change: &str) -> Result<(), Violation> {
    const ATTEMPTS: usize = 10;
    let mut verdict = Ok(());
    for _ in 0..ATTEMPTS {
        verdict = load_on(change).await;
        if verdict.is_err() {
            break;
        }
    }
    verdict
}

/// Makes the time between the read of the holders and the write of the new grant longer. The index would refuse a
/// second exclusive grant of a key, so each grant gets its own slot.
const SLOW: &str = "CREATE FUNCTION lock_core.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.005); \
                    NEW.slot := NEW.owner; RETURN NEW; END $$; CREATE TRIGGER slow BEFORE INSERT ON lock_core.holders FOR EACH ROW EXECUTE FUNCTION \
                    lock_core.slow();";

/// This is a negative control: a claim is compatible with every holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_looks_at_no_holder_is_found_out() {
    let fits = "CREATE OR REPLACE FUNCTION lock_core.fits(p_mode text, p_held text, p_count bigint) RETURNS boolean LANGUAGE sql \
                IMMUTABLE AS $$ SELECT true $$";
    let verdict = violation_on(&format!("{SLOW} {fits}")).await;
    assert!(matches!(verdict, Err(Violation::Overlap { .. })), "{verdict:?}");
}

/// Sends requests for a free key over the long path.
const LONG_WAY: &str = "CREATE OR REPLACE FUNCTION lock_core.take_free(p_key text, p_owner text, p_record text, p_mode text, \
                        p_ttl bigint, p_fenced boolean) RETURNS text[] LANGUAGE sql AS 'SELECT NULL::text[]';";

/// Returns whether two owners held a key at once, or were numbered in another order than the order of their holds. Both
/// happen when two sessions read a row at once.
fn shows_a_race(verdict: &Result<(), Violation>) -> bool {
    matches!(verdict, Err(Violation::Overlap { .. } | Violation::TokenOrder { .. }))
}

/// This is a negative control: two claims for one key read its holders at the same time. With the lock of the row, the
/// same server is correct, however slow it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_locks_no_row_is_found_out() {
    for way in [SLOW, &format!("{SLOW} {LONG_WAY}")] {
        load_on(way).await.unwrap_or_else(|violation| panic!("{violation}"));
    }
    let unlocked = "CREATE OR REPLACE FUNCTION lock_core.lock_row(p_key text, p_make boolean) RETURNS lock_core.keys \
                    LANGUAGE plpgsql AS $$ DECLARE k lock_core.keys; BEGIN INSERT INTO lock_core.keys (key) VALUES (p_key) \
                    ON CONFLICT DO NOTHING; SELECT * INTO k FROM lock_core.keys WHERE key = p_key; RETURN k; END $$";
    let verdict = violation_on(&format!("{SLOW} {LONG_WAY} {unlocked}")).await;
    assert!(shows_a_race(&verdict), "{verdict:?}");
}

/// The same control for the short path, which has its own lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_locks_no_row_of_a_free_key_is_found_out() {
    let unlocked = "DO $$ DECLARE v text := pg_get_functiondef('lock_core.take_free'::regproc); BEGIN ASSERT v LIKE \
                    '% FOR UPDATE;%'; EXECUTE replace(v, ' FOR UPDATE;', ';'); END $$";
    let verdict = violation_on(&format!("{SLOW} {unlocked}")).await;
    assert!(shows_a_race(&verdict), "{verdict:?}");
}

/// This is a negative control: the fencing token does not grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_gives_a_token_twice_is_found_out() {
    let verdict = violation_on(
        "CREATE FUNCTION lock_core.stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.fence := 7; RETURN NEW; END $$; \
         CREATE TRIGGER stuck BEFORE UPDATE ON lock_core.keys FOR EACH ROW EXECUTE FUNCTION lock_core.stuck(); \
         CREATE OR REPLACE FUNCTION lock_core.micros(t timestamptz) RETURNS bigint LANGUAGE sql AS $$ SELECT 1::bigint $$",
    )
    .await;
    assert!(verdict.is_err(), "{verdict:?}");
}
