//! Measures tasks of this process, with one key for each task or one key for all.

use std::sync::Arc;

use lock_core::LockManager;
use lock_core::backend::postgres::tokio_postgres::{Client, Statement};

use crate::rounds::{Kind, ROUNDS, Round, WINDOW, lock_round, print, round};
use crate::server::Server;

const WAITING: usize = 32;

/// Measures free keys. Compares the library with an advisory lock over one connection, and with two forms of the
/// cheapest lease in a table.
pub(crate) async fn free(server: &Server) {
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let sessions = LockManager::connect(&server.advisory_url()).await.expect("connects");
    let row = Arc::new(Row::written(server.connection().await).await);
    let same = Arc::new(Row::changed(server.connection().await).await);
    let advisory = Arc::new(Advisory::new(server.connection().await, "pg_try_advisory_lock").await);
    for tasks in [1, 64] {
        println!(
            "free keys, {tasks} tasks ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)"
        );
        let (mut base, mut rows, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lock, mut fair, mut session) = (Vec::new(), Vec::new(), Vec::new());
        let mut fenced = Vec::new();
        for _ in 0..ROUNDS {
            base.push(advisory_round(server, tasks, |_| Arc::clone(&advisory), false).await);
            rows.push(row_round(server, tasks, &row).await);
            changed.push(row_round(server, tasks, &same).await);
            session.push(lock_round(|| server.cpu(), tasks, &sessions, Kind::Lock, false).await);
            lock.push(lock_round(|| server.cpu(), tasks, &locks, Kind::Lock, false).await);
            fair.push(lock_round(|| server.cpu(), tasks, &locks, Kind::Fair, false).await);
            fenced.push(lock_round(|| server.cpu(), tasks, &locks, Kind::Fenced, false).await);
        }
        print("advisory, one connection", &base, &base);
        print("a row, written and deleted", &rows, &base);
        print("a row, changed in place", &changed, &base);
        print("lock-core, mode=advisory", &session, &base);
        print("lock-core, lock", &lock, &base);
        print("lock-core, fair", &fair, &base);
        print("lock-core, with a token", &fenced, &base);
    }
}

/// Measures one key for all tasks. Compares the library with an advisory lock that has one connection for each task.
pub(crate) async fn hot(server: &Server) {
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let mut all = Vec::new();
    for _ in 0..WAITING {
        all.push(Arc::new(Advisory::new(server.connection().await, "pg_advisory_lock").await));
    }
    println!(
        "one key, {WAITING} tasks ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)"
    );
    let (mut base, mut fair, mut lock) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        base.push(advisory_round(server, WAITING, |task| Arc::clone(&all[task]), true).await);
        fair.push(lock_round(|| server.cpu(), WAITING, &locks, Kind::Fair, true).await);
        lock.push(lock_round(|| server.cpu(), WAITING, &locks, Kind::Lock, true).await);
    }
    print("advisory, 32 connections", &base, &base);
    print("lock-core, fair", &fair, &base);
    print("lock-core, lock", &lock, &base);
}

/// Advisory locks over one connection.
pub(crate) struct Advisory {
    client: Client,
    lock: Statement,
    unlock: Statement,
}

impl Advisory {
    pub(crate) async fn new(client: Client, function: &str) -> Self {
        let lock = client.prepare(&format!("SELECT {function}($1)")).await.expect("a statement");
        let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await.expect("a statement");
        Self { client, lock, unlock }
    }

    pub(crate) async fn lock(&self, key: i64) {
        self.client.query(&self.lock, &[&key]).await.expect("the server answers");
    }

    pub(crate) async fn unlock(&self, key: i64) {
        self.client.query(&self.unlock, &[&key]).await.expect("the server answers");
    }
}

/// A lease in one row, with one plain statement for the acquisition and one for the release. It has neither waiters nor
/// fencing tokens, and an expired grant still blocks the key. No lock in a table can do less.
struct Row {
    client: Client,
    take: Statement,
    release: Statement,
}

impl Row {
    /// Returns a lease whose acquisition inserts the row, and whose release deletes the row.
    async fn written(client: Client) -> Self {
        let take =
            "INSERT INTO written VALUES ($1, $2, clock_timestamp() + interval '10 s') ON CONFLICT DO NOTHING";
        Self::new(client, "written", take, "DELETE FROM written WHERE key = $1 AND owner = $2").await
    }

    /// Returns a lease that updates an existing row. Its release does not wait for the disk.
    async fn changed(client: Client) -> Self {
        let take = "UPDATE changed SET owner = $2, expires_at = clock_timestamp() + interval '10 s' WHERE key = $1 AND owner = ''";
        let release = "UPDATE changed SET owner = '', expires_at = '-infinity' WHERE key = $1 AND owner = $2 \
                       AND expires_at > clock_timestamp() RETURNING set_config('synchronous_commit', 'off', true)";
        let row = Self::new(client, "changed", take, release).await;
        let free = "INSERT INTO changed SELECT 'free:' || n, '', '-infinity' FROM generate_series(0, 63) n";
        row.client.batch_execute(free).await.expect("rows");
        row
    }

    async fn new(client: Client, table: &str, take: &str, release: &str) -> Self {
        let made = format!(
            "CREATE TABLE {table} (key text PRIMARY KEY, owner text, expires_at timestamptz) WITH (fillfactor = 70)"
        );
        client.batch_execute(&made).await.expect("a table");
        let take = client.prepare(take).await.expect("a statement");
        let release = client.prepare(release).await.expect("a statement");
        Self { client, take, release }
    }
}

async fn row_round(server: &Server, tasks: usize, row: &Arc<Row>) -> Round {
    let row = Arc::clone(row);
    let cycle = move |task: usize| {
        let (row, key, owner) = (Arc::clone(&row), format!("free:{task}"), format!("owner:{task}"));
        async move {
            for statement in [&row.take, &row.release] {
                let changed =
                    row.client.execute(statement, &[&key, &owner]).await.expect("the server answers");
                assert_eq!(changed, 1, "the key is free");
            }
        }
    };
    round(|| server.cpu(), tasks, cycle).await
}

async fn advisory_round(
    server: &Server,
    tasks: usize,
    of: impl Fn(usize) -> Arc<Advisory>,
    hot: bool,
) -> Round {
    let by_task: Vec<_> = (0..tasks).map(of).collect();
    let cycle = move |task: usize| {
        let (advisory, key) =
            (Arc::clone(&by_task[task]), if hot { 0 } else { i64::try_from(task).unwrap_or(0) });
        async move {
            advisory.lock(key).await;
            advisory.unlock(key).await;
        }
    };
    round(|| server.cpu(), tasks, cycle).await
}
