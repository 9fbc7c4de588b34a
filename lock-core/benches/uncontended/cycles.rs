//! Defines one cycle, which is an acquire and a release, of the library and of its baselines.

use std::pin::Pin;
use std::sync::Arc;

use lock_core::LockManager;
use redis::aio::MultiplexedConnection;

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub(crate) type Cycle = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Loads the script of [`raw`] and returns its hash.
pub(crate) async fn load(connection: &mut MultiplexedConnection) -> Arc<str> {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(COMPARE_AND_DELETE);
    let sha: String = command.query_async(connection).await.expect("loads");
    sha.into()
}

/// Returns a cycle of the library. Each task locks its own key.
pub(crate) fn cycle(locks: LockManager, fencing: bool) -> impl Fn(usize) -> Cycle + Clone + Send + 'static {
    move |task| {
        let request = locks.lock(format!("bench:{task}")).fencing(fencing);
        Box::pin(async move {
            let guard = request.acquire().await.expect("nobody else has it");
            guard.release().await.expect("the store answers");
            tokio::task::consume_budget().await;
        })
    }
}

/// Returns a cycle that sends a plain `SET key value NX PX ttl`, and an `EVALSHA` that compares and deletes.
pub(crate) fn raw(
    connection: MultiplexedConnection,
    sha: Arc<str>,
) -> impl Fn(usize) -> Cycle + Clone + Send + 'static {
    move |task| {
        let (mut connection, sha) = (connection.clone(), Arc::clone(&sha));
        Box::pin(async move {
            let key = format!("raw:{task}");
            let owner = format!("{:032x}{:016x}", 0xfeed_u128, task);
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(&owner).arg("NX").arg("PX").arg(10_000);
            let set: Option<String> = set.query_async(&mut connection).await.expect("the server answers");
            assert!(set.is_some(), "nobody else has it");
            let mut delete = redis::cmd("EVALSHA");
            delete.arg(&*sha).arg(1).arg(&key).arg(&owner);
            let deleted: i64 = delete.query_async(&mut connection).await.expect("the server answers");
            assert_eq!(deleted, 1);
            tokio::task::consume_budget().await;
        })
    }
}
