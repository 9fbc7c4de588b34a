//! Many waiters for one key. A release notifies only one of them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lock_core::backend::postgres::Postgres;
use lock_core::backend::postgres::tokio_postgres::{self, AsyncMessage, Client, NoTls, config::SslMode};
use lock_core::backend::{Ask, Attempt, Backend, Listener, Mode, Queue, Released};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::testkit::Claims;
use lock_tests::{PATIENCE, PostgresServer, wait_until};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::support::{LONG, ms};

const WAITERS: usize = 200;

/// The key whose waiter makes the store open its listening connection.
const FIRST: &str = "first";

/// Counts the received notifications.
#[derive(Debug, Default)]
struct Told {
    granted: AtomicUsize,
    others: AtomicUsize,
}

impl Listener for Told {
    fn granted(&self, _owner: Owner, _waiters: usize) {
        self.granted.fetch_add(1, Ordering::SeqCst);
    }

    fn contended(&self, key: &str) {
        self.others.fetch_add(usize::from(key != FIRST), Ordering::SeqCst);
    }

    fn opened(&self, _key: &str) {
        self.others.fetch_add(1, Ordering::SeqCst);
    }

    fn reconnected(&self) {}
}

/// Listens to the notifications for the processes of some claims. Returns the number of messages.
async fn listen_to(server: &PostgresServer, claims: &[Claims]) -> (Client, Arc<AtomicUsize>) {
    let stream = TcpStream::connect(server.address()).await.expect("the server listens");
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres").ssl_mode(SslMode::Disable);
    let (client, mut connection) = config.connect_raw(stream, NoTls).await.expect("a connection");
    let heard = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let channel = |claims: &Claims| format!("LISTEN \"lock:wake:{:032x}\";", claims.owner().process());
    client.batch_execute(&claims.iter().map(channel).collect::<String>()).await.expect("it listens");
    (client, heard)
}

/// Two hundred processes have one waiter each. The messages are counted where they leave the server.
#[tokio::test]
async fn a_release_sends_one_message_whoever_waits() {
    let server = PostgresServer::start();
    let postgres = Postgres::connect(&server.url()).await.expect("it takes locks");
    let processes: Vec<Claims> = (0..=WAITERS).map(|_| Claims::new().expect("random bytes")).collect();
    let (client, heard) = listen_to(&server, &processes).await;
    let key = Key::new("k").expect("a key");
    let mut claims = processes.iter().map(|process| process.claim(&key, Mode::Exclusive, Queue::Fifo, LONG));
    let mut holder = claims.next().expect("a claim");
    let answer = postgres.acquire(&holder, Ask::Try).await.expect("an answer");
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
    let waiters: Vec<_> = claims.collect();
    for waiter in &waiters {
        let answer = postgres.acquire(waiter, Ask::Enqueue { room: None }).await.expect("an answer");
        assert!(matches!(&answer, Attempt::Held(held) if held.queued_at.is_some()), "{answer:?}");
    }
    // The waiters of this test send no heartbeats, so they must not expire.
    server.sql("UPDATE lock_core.waiters SET deadline = 'infinity'");
    let all = async || {
        // The answer arrives after the messages of all earlier commits.
        client.batch_execute("SELECT 1").await.expect("an answer");
        client.batch_execute("SELECT 1").await.expect("an answer");
        heard.load(Ordering::SeqCst)
    };
    assert_eq!(all().await, 1, "the holder is told of the first waiter alone");
    for (released, waiter) in waiters.iter().enumerate() {
        assert_eq!(postgres.release(&holder, None).await.expect("an answer"), Released::Released);
        assert_eq!(all().await, released + 2, "one message for a release");
        holder = waiter.clone();
    }
    assert_eq!(postgres.release(&holder, None).await.expect("an answer"), Released::Released);
    assert_eq!(all().await, WAITERS + 1, "none for a release that nobody waits for");
}

#[tokio::test]
async fn one_release_wakes_one_of_two_hundred() {
    let server = PostgresServer::start();
    let url = server.url();
    let postgres = Postgres::connect(&url).await.expect("the server takes locks");
    let (holders, claims) = (Claims::new().expect("random bytes"), Claims::new().expect("random bytes"));
    let told = Arc::<Told>::default();
    let listener: Arc<dyn Listener> = Arc::<Told>::clone(&told);
    for process in [&holders, &claims].map(|claims| claims.owner().process()) {
        let listener: Weak<dyn Listener> = Arc::downgrade(&listener);
        postgres.attach(process, listener, Some(&Handle::current()));
    }

    let first = Key::new(FIRST).expect("a key");
    for (claims, ask) in [(&holders, Ask::Try), (&claims, Ask::Enqueue { room: None })] {
        let claim = claims.claim(&first, Mode::Exclusive, Queue::Fifo, LONG);
        let _granted_or_queued = postgres.acquire(&claim, ask).await.expect("an answer");
    }
    const LISTENS: &str = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    wait_until("it listens", PATIENCE, async || server.sql(LISTENS) == "t").await;

    let key = Key::new("k").expect("a key");
    let mut holder = holders.claim(&key, Mode::Exclusive, Queue::Fifo, LONG);
    let answer = postgres.acquire(&holder, Ask::Try).await.expect("an answer");
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
    let waiters: Vec<_> =
        (0..WAITERS).map(|_| claims.claim(&key, Mode::Exclusive, Queue::Fifo, LONG)).collect();
    for waiter in &waiters {
        let answer = postgres.acquire(waiter, Ask::Enqueue { room: None }).await.expect("an answer");
        assert!(matches!(&answer, Attempt::Held(held) if held.queued_at.is_some()), "{answer:?}");
    }
    // The waiters of this test send no heartbeats, so they must not expire.
    server.sql("UPDATE lock_core.waiters SET deadline = 'infinity'");
    for (released, waiter) in waiters.iter().take(5).enumerate() {
        assert_eq!(postgres.release(&holder, None).await.expect("an answer"), Released::Released);
        let all = || told.granted.load(Ordering::SeqCst);
        wait_until("one is told", PATIENCE, async || all() > released).await;
        tokio::time::sleep(ms(50)).await;
        assert_eq!(all(), released + 1, "and no other");
        holder = waiter.clone();
    }
    let others = || told.others.load(Ordering::SeqCst);
    wait_until("the holder is told of a waiter", PATIENCE, async || others() > 0).await;
    assert_eq!(others(), 1, "the holder is told of the first waiter alone");
}
