//! Many waiters of one process for one key, over a connection with a long round trip. Each waiter keeps its place and
//! is served.

use std::time::Duration;

use lock_core::strategy::retry;
use lock_core::{LockManager, LockRequest};
use lock_tests::{Bound, Crowd, PostgresServer, Proxy, wait_until};

use crate::common::calls;
use crate::support::{LONG, connect, empty, ms};

/// The delay in each direction. If each request were a separate call, two at a time, there would be only 40 a second.
const EACH_WAY: Duration = ms(25);
const WAITERS: usize = 150;
/// The time limit for steps that take seconds on a quiet machine.
const MINUTES: Duration = Duration::from_secs(180);

struct Far {
    server: PostgresServer,
    locks: LockManager,
    proxy: Proxy,
}

impl Far {
    /// Returns a manager over a slow connection.
    async fn start(settings: &[&str]) -> Self {
        let server = PostgresServer::with(settings);
        let near = server.hasty_url();
        drop(connect(&near).await);
        let proxy = Proxy::to(server.address());
        let port = |port: u16| format!(":{port}");
        let url = near.replace(&port(server.address().port()), &port(proxy.port()));
        // The long timeout keeps a busy machine from looking like a slow server.
        let locks = connect(&format!("{url}&timeout=15s")).await;
        proxy.delay(EACH_WAY);
        Self { server, locks, proxy }
    }

    /// Starts many waiters.
    fn crowd(&self, request: impl Fn(&LockManager, usize) -> LockRequest) -> Crowd {
        let mut crowd = Crowd::default();
        for number in 0..WAITERS {
            let request = request(&self.locks, number).ttl(LONG).strategy(retry().within(MINUTES));
            crowd.add(number, request);
        }
        crowd
    }

    fn count(&self, condition: &str) -> usize {
        let sql = format!("SELECT count(*) FROM lock_core.waiters WHERE {condition}");
        self.server.sql(&sql).parse().expect("a number")
    }

    /// Waits until all waiters are queued, and have been queued for longer than a waiter is kept without heartbeats.
    async fn all_stay(&self) {
        wait_until("all wait", MINUTES, async || self.count("true") == WAITERS).await;
        let first = "SELECT min(deadline) FROM lock_core.waiters";
        let began = self.server.sql(first);
        let later = format!("deadline > '{began}'::timestamptz + interval '3 seconds'");
        wait_until("all send heartbeats", MINUTES, async || self.count(&later) == WAITERS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_at_a_semaphore_is_served() {
    let far = Far::start(&[]).await;
    far.crowd(|locks, _| locks.semaphore("k", 2)).all_served(MINUTES).await;
    empty(&far.server, LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_readers_keeps_its_places_behind_a_writer() {
    let far = Far::start(&[]).await;
    let writer = far.locks.write("k").ttl(LONG).acquire().await.expect("it is free");
    let crowd = far.crowd(|locks, _| locks.read("k"));
    far.all_stay().await;
    writer.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
    empty(&far.server, LONG).await;
}

/// The waiters are served in the order in which the store has received their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_fair_waiters_is_served_in_its_order() {
    let far = Far::start(&["track_functions=all"]).await;
    let holder = far.locks.fair("k").ttl(LONG).acquire().await.expect("it is free");
    let clock = Bound::new(MINUTES);
    let crowd = far.crowd(|locks, number| locks.fair("k").label(format!("n{number}")));
    far.all_stay().await;
    let order = far
        .server
        .sql("SELECT substring(record FROM 'label=n([0-9]+)') FROM lock_core.waiters ORDER BY ticket");
    let order: Vec<usize> = order.lines().map(|number| number.parse().expect("a number")).collect();
    let heartbeats = WAITERS * (1 + usize::try_from(clock.elapsed().as_millis()).expect("minutes") / 667);
    // The answers that determine the order have all arrived, so the delay is no longer needed.
    far.proxy.delay(Duration::ZERO);
    holder.release().await.expect("an answer");
    assert_eq!(crowd.all_served(MINUTES).await, order, "the order of arrival");
    // The client sends the heartbeats of all waiters together.
    let calls = calls(&far.server).await("heartbeats");
    let calls = usize::try_from(calls).expect("a number");
    assert!(calls > 0 && calls < heartbeats / 3, "{calls} calls, for about {heartbeats} heartbeats");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_at_several_keys_is_served() {
    let far = Far::start(&[]).await;
    far.proxy.delay(ms(5));
    far.crowd(|locks, _| locks.all(["a", "b"])).all_served(MINUTES).await;
    empty(&far.server, LONG).await;
}

/// A waiter is granted the key while its heartbeat is in flight, together with heartbeats of others that still wait. It
/// must learn of its grant whatever their order in the call. Postgres joins through a cache, so an answer could belong
/// to another owner.
#[tokio::test]
async fn heartbeats_that_are_sent_together_have_their_own_answers() {
    let server = PostgresServer::start();
    drop(connect(&server.url()).await);
    let owner = |name: char| format!("repeat('{name}', 48)");
    for (key, mode) in [("exclusive", 'x'), ("shared", 's')] {
        for (name, mode) in [('a', 'x'), ('b', mode), ('c', 'x'), ('d', 'x')] {
            let asked = format!(
                "SELECT lock_core.attempt('{key}', {}, '', '{mode}', 60000000, false, 9, false)",
                owner(name)
            );
            server.sql(&asked);
        }
        server.sql(&format!("SELECT lock_core.let_go('{key}', {}, 'x')", owner('a')));
        for order in ["bcd", "bdc", "cbd", "cdb", "dbc", "dcb", "gcb", "b", "cc"] {
            let column = |of: &dyn Fn(char) -> String| {
                format!("ARRAY[{}]", order.chars().map(of).collect::<Vec<_>>().join(", "))
            };
            let heartbeats = format!(
                "SELECT heartbeats[1] || coalesce(' ' || heartbeats[8], '') FROM lock_core.heartbeats('{key}', {}, {}, {}, {})",
                column(&owner),
                column(&|_| "''".to_owned()),
                column(&|name| format!("'{}'", if name == 'b' { mode } else { 'x' })),
                column(&|_| "60000000::bigint".to_owned()),
            );
            let expected = order.chars().map(|name| match name {
                'b' => "1",
                // The holder does not hand off to these waiters, because they belong to other processes.
                'c' | 'd' => "0 false",
                _ => "-1",
            });
            let expected: Vec<_> = expected.collect();
            assert_eq!(server.sql(&heartbeats).lines().collect::<Vec<_>>(), expected, "{key} {order}");
        }
    }
}

/// Of several requests that are sent together, one may be granted and another be queued. A crash of the server must not
/// lose the grant.
#[tokio::test]
async fn a_grant_among_others_is_on_disk_before_its_answer() {
    let server = PostgresServer::start();
    drop(connect(&server.url()).await);
    let attempts = |owners: &str| {
        let all = |value: &str| format!("array_fill({value}, ARRAY[2])");
        format!(
            "SELECT count(*) FROM lock_core.attempts('k', ARRAY[{owners}], {}, {}, {}, {}, {}, {})",
            all("''::text"),
            all("'x'::text"),
            all("60000000::bigint"),
            all("false"),
            all("100"),
            all("true"),
        )
    };
    let commits =
        |owners: &str| server.sql(&format!("BEGIN; {}; SHOW synchronous_commit; COMMIT", attempts(owners)));
    assert_eq!(commits("repeat('a', 48), repeat('b', 48)"), "2\non", "one is granted, one is queued");
    assert_eq!(commits("repeat('c', 48), repeat('d', 48)"), "2\noff", "both are queued");
}
