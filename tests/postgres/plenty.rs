//! Keys with thousands of holders or waiters. The limits are far above the time of one pass over the rows, and below
//! the time of one pass for each row.

use lock_core::LockManager;
use lock_tests::PostgresServer;

use crate::support::{LONG, connect};

async fn crowded(rows: &str) -> (PostgresServer, LockManager) {
    let server = PostgresServer::start();
    // On a busy machine, the server may need longer for thousands of rows than the usual timeout.
    let locks = connect(&server.url()).await;
    // The statistics of the planner are from before the rows were inserted.
    server.sql(
        "INSERT INTO lock_core.keys (key) SELECT 'few' || n FROM generate_series(1, 20) n; \
         INSERT INTO lock_core.holders (key, slot, owner, mode, record, expires_at) SELECT 'few' || n, o, o, 's', '', 'infinity' FROM \
         (SELECT n, lpad(n::text, 48, '0') AS o FROM generate_series(1, 20) n) r; \
         INSERT INTO lock_core.waiters SELECT 'few' || n, lpad(n::text, 48, '0'), n, 'infinity', 1, 'x', '' \
         FROM generate_series(1, 20) n",
    );
    for table in ["keys", "holders", "waiters"] {
        server.sql(&format!("VACUUM ANALYZE lock_core.{table}"));
    }
    server.sql(&format!("INSERT INTO lock_core.keys (key) VALUES ('k'); {rows}"));
    (server, locks)
}

/// Such rows remain after an hour without the server, or after a crash of a service.
#[tokio::test]
async fn many_permits_that_are_over_are_cleared_at_once() {
    let (server, locks) = crowded(
        "INSERT INTO lock_core.holders (key, slot, owner, mode, record, expires_at) SELECT 'k', o, o, 'p20000', '', \
         now() - interval '1 hour' FROM (SELECT lpad(n::text, 48, '0') AS o FROM generate_series(1, 20000) n) p",
    )
    .await;
    let permit = locks.semaphore("k", 20_000).ttl(LONG).acquire().await.expect("they are over");
    assert_eq!(server.sql("SELECT count(*) FROM lock_core.holders WHERE key = 'k'"), "1");
    permit.release().await.expect("an answer");
}

#[tokio::test]
async fn many_readers_are_served_at_once() {
    let (server, _locks) = crowded(
        "INSERT INTO lock_core.waiters (key, owner, ticket, deadline, ttl, mode, record) SELECT 'k', lpad(n::text, 48, '0'), n, \
         now() + interval '1 hour', 60000000, 's', '' FROM generate_series(1, 8000) n",
    )
    .await;
    let call = "SET statement_timeout = '60s'; \
                SELECT verdict, waiting FROM lock_core.acquire('k', repeat('a', 48), '', 's', 60000000, false, null, false)";
    assert_eq!(server.sql(call), "1|0");
    assert_eq!(server.sql("SELECT count(*) FROM lock_core.holders WHERE key = 'k'"), "8001");
}

/// One key has thousands of permits. Thousands of other keys have one holder, as the planner expects of all keys.
#[tokio::test]
async fn a_permit_among_thousands_is_found_by_the_index() {
    let (server, _locks) = crowded(
        "INSERT INTO lock_core.holders SELECT 'one' || n, lpad(n::text, 48, 'e'), 'x', '', 'infinity' FROM generate_series(1, 20000) n; \
         INSERT INTO lock_core.holders (key, slot, owner, mode, record, expires_at) SELECT 'k', o, o, 'p9999', '', 'infinity' FROM \
         (SELECT lpad(n::text, 48, '0') AS o FROM generate_series(1, 4000) n) p; ANALYZE lock_core.holders",
    )
    .await;
    let owner = |n: usize| format!("{n:0>48}");
    let calls = [
        "FROM (SELECT array_agg(key) AS keys, array_agg(owner) AS owners, array_agg(60000000::bigint) AS ttls, array_agg(0::bigint) AS \
         owns FROM (SELECT * FROM lock_core.holders WHERE key = 'k' AND slot < lpad('101', 48, '0')) h) h, \
         lock_core.renew(h.keys, h.owners, h.ttls, h.owns)"
            .to_owned(),
        format!("lock_core.verify(ARRAY['k'], '{}')", owner(200)),
        format!(
            "count(*) FROM lock_core.heartbeats('k', ARRAY['{}', '{}'], ARRAY['', ''], ARRAY['p9999', 'p9999'], \
             ARRAY[60000000, 60000000]::bigint[])",
            owner(205),
            owner(206)
        ),
        format!("lock_core.fence(ARRAY['k'], '{0}', '{0}', 0)", owner(202)),
        format!("lock_core.hand_off('k', '{}', 'p9999')", owner(203)),
        format!("lock_core.release(ARRAY['k'], '{}', 'p9999', NULL, 0)", owner(204)),
    ];
    for call in calls {
        // Each session counts the rows that its index scans find.
        let counted = format!(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT {call}; SELECT pg_stat_get_xact_tuples_fetched('lock_core.holders_pkey'::regclass)",
        );
        let read: u64 = server
            .sql(&format!("BEGIN; {counted}"))
            .lines()
            .last()
            .map_or(0, |n| n.parse().expect("a number"));
        assert!((1..1_500).contains(&read), "{read} rows for {call}");
    }
    let left = "SELECT count(*) FROM lock_core.holders WHERE key = 'k'";
    assert_eq!(server.sql(left), "4000", "each of them was rolled back");
}
