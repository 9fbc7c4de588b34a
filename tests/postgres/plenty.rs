//! Keys with thousands of holders or waiters. The limits are far above what one pass takes, and below what a pass for
//! each row takes.

use lock_core::LockManager;
use lock_tests::PostgresServer;

use crate::support::{LONG, manager};

async fn crowded(rows: &str) -> (PostgresServer, LockManager) {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    // What the planner knows is what it was before there were many.
    server.sql(
        "INSERT INTO lock_core.keys (key) SELECT 'few' || n FROM generate_series(1, 20) n; \
         INSERT INTO lock_core.holders SELECT 'few' || n, lpad(n::text, 48, '0'), 's', '', 'infinity' FROM generate_series(1, 20) n; \
         INSERT INTO lock_core.waiters SELECT 'few' || n, lpad(n::text, 48, '0'), n, 'infinity', 1, 'x', '' \
         FROM generate_series(1, 20) n",
    );
    for table in ["keys", "holders", "waiters"] {
        server.sql(&format!("VACUUM ANALYZE lock_core.{table}"));
    }
    server.sql(&format!("INSERT INTO lock_core.keys (key) VALUES ('k'); {rows}"));
    (server, locks)
}

/// A server that is restarted after an hour, or a service that crashed, leaves such rows.
#[tokio::test]
async fn many_permits_that_are_over_are_cleared_at_once() {
    let (server, locks) = crowded(
        "INSERT INTO lock_core.holders (key, owner, mode, record, expires_at) SELECT 'k', lpad(n::text, 48, '0'), 'p20000', '', \
         now() - interval '1 hour' FROM generate_series(1, 20000) n",
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
    let call = "SET statement_timeout = '4s'; \
                SELECT verdict, waiting FROM lock_core.acquire('k', repeat('a', 48), '', 's', 60000000, false, null, false)";
    assert_eq!(server.sql(call), "1|0");
    assert_eq!(server.sql("SELECT count(*) FROM lock_core.holders WHERE key = 'k'"), "8001");
}
