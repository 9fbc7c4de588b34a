//! The groups of a fair lock: waiters of one process that stand directly behind each other share a place and a grant.

use lock_core::backend::postgres::Postgres;
use lock_tests::{PATIENCE, PgBouncer, PostgresServer};

use crate::common::{calls, take_turns};
use crate::in_line::{
    Counted, Grants, Places, come_again, fair, line, lost_as_one, mixed, places_of_mixed, served_in_order,
};
use crate::support::{connect, cycle, empty, manager, ms};

/// Has the server count the requests that share a place, which write nothing: a sequence has no transactions.
pub(crate) fn count_shared(server: &PostgresServer) {
    server.sql(
        "CREATE SEQUENCE lock_core.asked; \
         DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('lock_core.stands_behind(text, text)'::regprocedure), \
         'stands_behind', 'looks'); END $do$; \
         CREATE OR REPLACE FUNCTION lock_core.stands_behind(p_key text, p_owner text) RETURNS text[] LANGUAGE plpgsql AS $$ \
         DECLARE a text[]; BEGIN a := lock_core.looks(p_key, p_owner); \
         IF a IS NOT NULL THEN PERFORM nextval('lock_core.asked'); END IF; RETURN a; END $$",
    );
}

/// Returns how many requests have a place: those that were queued, and those behind one of their own process.
pub(crate) fn placed(server: &PostgresServer) -> u64 {
    let placed = "SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM lock_core.asked) + (SELECT count(*) FROM \
                  lock_core.waiters)";
    server.sql(placed).parse().expect("a number")
}

fn places(server: &PostgresServer) -> usize {
    server.sql("SELECT count(*) FROM lock_core.waiters").parse().expect("a number")
}

impl Places for PostgresServer {
    fn placed(&self) -> u64 {
        placed(self)
    }
}

/// The places are taken one by one, so their order is known, and the grants must have the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_are_in_the_order_of_the_places() {
    for (holder_is_first, pooled) in [(false, false), (true, false), (false, true)] {
        let server = PostgresServer::start();
        let direct = manager(&server).await;
        let pooler = pooled.then(|| PgBouncer::before(&server, 8, ""));
        let url =
            pooler.as_ref().map_or_else(|| server.url(), |pooler| format!("{}?listen=off", pooler.url()));
        let [one, two, three] = [connect(&url).await, connect(&url).await, connect(&url).await];
        drop(direct);
        count_shared(&server);
        let holder = if holder_is_first { &one } else { &three };
        let held = fair(holder).acquire().await.expect("it is free");
        let grants = Grants::default();
        let tasks = line(&server, &mixed(&one, &two, &three), &grants).await;
        let expected = usize::try_from(places_of_mixed(holder_is_first)).expect("few");
        assert_eq!(places(&server), expected);
        let listed = one.locks().await.expect("an answer");
        assert_eq!(listed.locks[0].waiting, expected, "a group has one place");
        served_in_order(held, tasks, &grants).await;
        empty(&server, PATIENCE).await;
    }
}

/// The grant of a group is lost as one. The rest of it queues again, and nobody holds beside another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_loses_its_grant_queues_again() {
    let server = PostgresServer::start();
    let [one, two] = [manager(&server).await, manager(&server).await];
    count_shared(&server);
    // A server without its data.
    let forgets = async || drop(server.sql("DELETE FROM lock_core.holders"));
    lost_as_one(&server, &one, &two, ms(3_000), forgets).await;
    empty(&server, PATIENCE).await;
}

/// Each turn of one process costs next to no statement: one request has a place for all who wait at that moment, and the grant goes
/// from task to task. With a place for each, a turn costs a request and a release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_in_a_group_costs_few_statements() {
    const TASKS: u64 = 32;
    const TURNS: u64 = 50;
    for shared in [true, false] {
        let server = PostgresServer::with(&["track_functions=all"]);
        let locks = manager(&server).await;
        cycle(&locks, "k").await;
        take_turns(TASKS, TURNS, move || {
            let request = fair(&locks);
            if shared { request } else { request.max_waiters(1_000) }
        })
        .await;
        let calls = calls(&server).await;
        let of = |names: &[&str]| names.iter().map(|name| calls(name)).sum::<u64>();
        let requests = of(&["stands_behind"]).max(of(&["enqueue"]));
        let statements = requests + of(&["hand_off", "release_to", "heartbeats", "renew"]);
        let turns = TASKS * TURNS;
        assert_eq!(statements <= turns / 4, shared, "{statements} statements for {turns} turns");
    }
}

const HOLDER: &str = "INSERT INTO lock_core.holders (key, owner, mode, record, expires_at) VALUES ('k', lpad('4', 33, 'a') || 'h', 'x', \
     'host', now() + interval '1 hour')";

/// A waiter with this owner and ticket.
fn waiter(owner: &str, ticket: i64) -> String {
    format!("INSERT INTO lock_core.waiters VALUES ('k', {owner}, {ticket}, 'infinity', 1000000, 'x', '')")
}

/// The owner of a process with this letter.
fn owner(process: char, name: &str) -> String {
    format!("lpad('4', 33, '{process}') || '{name}'")
}

/// A claim shares a grant only where it stands directly behind that, and writes nothing then.
#[tokio::test]
async fn only_who_stands_directly_behind_shares() {
    let server = PostgresServer::start();
    cycle(&manager(&server).await, "k").await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    let (own, other) = (waiter(&owner('a', "w"), 1), waiter(&owner('b', "v"), 2));
    let table = [
        (String::new(), "h"),
        (own.clone(), "w"),
        (other.clone(), "null"),
        (format!("{own}; {other}"), "null"),
        (format!("{}; {other}", waiter(&owner('a', "w"), 3)), "w"),
        (format!("{own}; {}", waiter("lpad('8', 33, 'a')", 2)), "null"),
        (waiter(&owner('a', "n"), 1), "null"),
        (format!("{}; {own}", waiter(&owner('a', "n"), 0)), "null"),
        ("UPDATE lock_core.holders SET owner = lpad('0', 33, 'a') || 'h'".to_owned(), "null"),
        (format!("UPDATE lock_core.holders SET owner = {}", owner('a', "n")), "null"),
        ("UPDATE lock_core.holders SET expires_at = '-infinity'".to_owned(), "null"),
        ("UPDATE lock_core.holders SET kept = true".to_owned(), "null"),
        ("UPDATE lock_core.holders SET mode = 's'".to_owned(), "null"),
        ("DELETE FROM lock_core.holders".to_owned(), "null"),
    ];
    for (before, expected) in table {
        server.sql(&format!(
            "DELETE FROM lock_core.holders; DELETE FROM lock_core.waiters; {HOLDER}; {before}"
        ));
        let asks = format!(
            "SELECT coalesce(right(a[10], 1) || a[9], 'null') FROM lock_core.stands_behind('k', {}) a",
            owner('a', "n")
        );
        let expected = if expected == "null" { "null".to_owned() } else { format!("{expected}false") };
        assert_eq!(server.sql(&asks), expected, "{before}");
    }
    let behind = "SELECT lock_core.stands_behind('k', 'n')";
    let error = server.try_sql(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {behind}"));
    assert!(error.expect_err("an older snapshot").contains("READ COMMITTED"));
    // Readers and writers pass it by: no row is locked, and no transaction has a number.
    server.sql(HOLDER);
    let asks = format!(
        "BEGIN; SELECT lock_core.stands_behind('k', {}) IS NOT NULL; SELECT pg_current_xact_id_if_assigned() IS NULL",
        owner('a', "n")
    );
    assert!(server.sql(&asks).ends_with("t\nt"), "it shares, and writes nothing");
}

/// The release of a grant with a successor, and what it leaves.
fn released_to(server: &PostgresServer, before: &str) -> String {
    server.sql(&format!(
        "DELETE FROM lock_core.holders; DELETE FROM lock_core.waiters; {HOLDER}; {}; {before}",
        waiter("'w'", 7)
    ));
    let release = format!(
        "SELECT split_part(lock_core.release_to('k', {}, 'next', 60000000, 0), ' ', 1)",
        owner('a', "h")
    );
    let answer = server.sql(&release);
    let left = "SELECT coalesce((SELECT string_agg(right(owner, 4), ',') FROM lock_core.holders), '') || '/' || \
                coalesce((SELECT string_agg(owner, ',' ORDER BY ticket) FROM lock_core.waiters), '')";
    format!("{answer} {}", server.sql(left))
}

#[tokio::test]
async fn a_successor_comes_before_all_who_wait() {
    let server = PostgresServer::start();
    cycle(&manager(&server).await, "k").await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    for (before, expected) in [
        ("", "granted next/w"),
        ("DELETE FROM lock_core.waiters", "granted next/"),
        // Somebody else has the key, or nobody: as a release.
        ("UPDATE lock_core.holders SET owner = 'o'", "-1 o/w"),
        ("DELETE FROM lock_core.holders; DELETE FROM lock_core.waiters", "0 /"),
        ("UPDATE lock_core.holders SET expires_at = '-infinity'; DELETE FROM lock_core.waiters", "0 /"),
    ] {
        assert_eq!(released_to(&server, before), expected, "{before}");
    }
    released_to(&server, "");
    let lease = "SELECT expires_at < clock_timestamp() + interval '2.1 s', record FROM lock_core.holders";
    assert_eq!(server.sql(lease), "t|host", "a short lease, and the record of the first");
    // On a busy machine the short lease is over by now.
    server.sql("UPDATE lock_core.holders SET expires_at = clock_timestamp() + interval '1 hour'");
    let again = format!("SELECT lock_core.release_to('k', {}, 'next', 60000000, 0)", owner('a', "h"));
    assert_eq!(server.sql(&again), "-1", "repeated, it changes nothing");
    let fence = "SELECT fence FROM lock_core.keys WHERE key = 'k'";
    server.sql(&format!(
        "UPDATE lock_core.keys SET fence = 0; UPDATE lock_core.holders SET owner = {}",
        owner('a', "h")
    ));
    server.sql(&again.replace(", 0)", ", 77)"));
    assert_eq!(server.sql(fence), "77", "the last token of the grant is told");
}

#[tokio::test]
async fn who_comes_again_shares_a_place_with_those_who_were_next() {
    let (server, counted) = (PostgresServer::start(), Counted::default());
    // Makes the tables.
    drop(manager(&server).await);
    let store = async || Postgres::connect(&server.url()).await.expect("the server takes locks");
    let (one, two) = (counted.manager(store().await), counted.manager(store().await));
    come_again(&counted, &one, &two).await;
}
