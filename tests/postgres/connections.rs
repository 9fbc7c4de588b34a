//! The number of connections of a store, and the behavior of the store when the server refuses more.

use std::sync::Arc;

use lock_core::backend::postgres::{Postgres, migrate};
use lock_core::backend::{Ask, Backend, Listener, Mode, Queue};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::testkit::Claims;
use lock_tests::{PATIENCE, PostgresServer, wait_until};
use tokio::runtime::{Builder, Runtime};

use crate::support::{LONG, connect, ms};

/// The role may have so few connections that none remains for renewals, or for notifications.
#[tokio::test]
async fn a_lock_is_kept_where_a_role_gets_few_connections() {
    let server = PostgresServer::start();
    migrate(&server.url()).await.expect("the administrator may");
    server.sql(
        "CREATE ROLE few LOGIN; GRANT USAGE ON SCHEMA lock_core TO few; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN \
         SCHEMA lock_core TO few; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lock_core TO few",
    );
    for limit in 1..=3 {
        server.sql(&format!("ALTER ROLE few CONNECTION LIMIT {limit}"));
        let locks = connect(&format!("{}?timeout=10s", server.url_of("few"))).await;
        let guard = locks.lock("k").ttl(ms(6_000)).acquire().await.expect("it is free");
        let ends = "SELECT extract(epoch FROM max(expires_at)) FROM lock_core.holders";
        let end: f64 = server.sql(ends).parse().expect("a time");
        wait_until("it is renewed twice", PATIENCE, async || {
            assert!(guard.is_held(), "{limit} connections: it is lost");
            tokio::time::sleep(ms(200)).await;
            server.sql(ends).parse::<f64>().expect("a time") > end + 3.0
        })
        .await;
        guard.release().await.expect("an answer");
        locks.shutdown(LONG).await;
        drop(locks);
        let left = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'few'";
        wait_until("the connections end", PATIENCE, async || server.sql(left) == "0").await;
    }
}

/// A manager without configuration, and the runtime of its background tasks.
struct Manager {
    claims: Claims,
    listener: Arc<dyn Listener>,
    runtime: Runtime,
}

#[derive(Debug)]
struct Deaf;

impl Listener for Deaf {
    fn granted(&self, _owner: Owner, _waiters: usize) {}
    fn contended(&self, _key: &str) {}
    fn opened(&self, _key: &str) {}
    fn reconnected(&self) {}
}

impl Manager {
    fn of(postgres: &Postgres) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let (claims, listener): (_, Arc<dyn Listener>) =
            (Claims::new().expect("random bytes"), Arc::new(Deaf));
        postgres.attach(claims.owner().process(), Arc::downgrade(&listener), Some(runtime.handle()));
        Self { claims, listener, runtime }
    }

    /// Queues for a key. This needs notifications.
    async fn waits_for(&self, postgres: &Postgres, key: &Key) {
        let claim = self.claims.claim(key, Mode::Exclusive, Queue::Fifo, LONG);
        let _ = postgres.acquire(&claim, Ask::Enqueue { room: None }).await.expect("an answer");
        postgres.release(&claim, None).await.expect("an answer");
    }

    async fn end(self) {
        drop(self.listener);
        tokio::task::spawn_blocking(move || drop(self.runtime)).await.expect("no panic");
    }
}

/// The managers of a store share the connection that listens. When its runtime ends, another manager opens a new one.
#[tokio::test]
async fn one_connection_listens_for_all_managers_of_a_store() {
    const ALL: &str = "SELECT string_agg(pid::text, ' ' ORDER BY backend_start) FROM pg_stat_activity \
                       WHERE application_name = 'lock-core'";
    let server = PostgresServer::start();
    let postgres = Postgres::connect(&server.url()).await.expect("the server takes locks");
    let key = Key::new("k").expect("a key");
    let mut managers: Vec<Manager> = (0..4).map(|_| Manager::of(&postgres)).collect();
    for manager in &managers {
        manager.waits_for(&postgres, &key).await;
    }
    let all = || server.sql(ALL).split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut before = all();
    assert_eq!(before.len(), 2, "one for this runtime, and one that listens");
    while managers.len() > 1 {
        managers.remove(0).end().await;
        wait_until("another one listens", PATIENCE, async || {
            let now = all();
            now.len() == 2 && now[0] == before[0] && now[1] != before[1]
        })
        .await;
        before = all();
        managers[0].waits_for(&postgres, &key).await;
        assert_eq!(all(), before, "nobody else listens");
    }
    for manager in managers {
        manager.end().await;
    }
}
