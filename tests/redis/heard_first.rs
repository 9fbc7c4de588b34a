//! The order of the answers at a hand-off between processes. The new holder is notified first, and then the old holder
//! is answered.

use std::io::{Read, Write};
use std::net::TcpStream;

use lock_core::backend::Released;
use lock_core::{LockGuard, LockManager};
use lock_tests::{Bound, PATIENCE, Recorder, RedisServer, SentCommand, wait_until};
use tokio::task::JoinHandle;

use crate::store::{Process, queue, token};
use crate::support::{LONG, manager, try_once};

/// A raw connection to the server.
struct Wire(TcpStream);

impl Wire {
    fn of(server: &RedisServer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server is up");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut wire = Self(stream);
        wire.send("HELLO 3\r\n");
        wire.read_all();
        wire
    }

    fn send(&mut self, commands: &str) {
        self.0.write_all(commands.as_bytes()).expect("the server is up");
    }

    /// Reads all that the server has written so far.
    fn read_all(&mut self) -> String {
        self.send("ECHO the-end\r\n");
        let (mut text, mut bytes) = (String::new(), [0; 4_096]);
        while !text.ends_with("the-end\r\n") {
            let count = self.0.read(&mut bytes).expect("the server answers");
            assert!(count > 0, "the server hung up");
            text.push_str(std::str::from_utf8(&bytes[..count]).expect("ASCII"));
        }
        text
    }

    /// Returns whether there are bytes to read.
    fn is_ready(&self) -> bool {
        self.0.set_nonblocking(true).expect("a socket");
        let ready = self.0.peek(&mut [0]).is_ok_and(|count| count > 0);
        self.0.set_nonblocking(false).expect("a socket");
        ready
    }
}

/// Returns the SHA-1 of the script that releases.
async fn script(server: &RedisServer, process: &Process) -> String {
    let claim = process.fifo("other");
    process.take(&claim).await;
    let mut recorder = server.record();
    process.release(&claim).await;
    let sent = recorder.take().into_iter().find(|sent| sent.name == "EVALSHA").expect("a release");
    sent.arguments[0].clone()
}

/// Returns how often the new holder received its message first, and how often the old holder did, until one of the two
/// happened ten times. Rounds in which this thread looked too late do not count. `in_front` is sent together with the
/// release.
async fn who_hears_first(server: &RedisServer, in_front: &str) -> [usize; 2] {
    let [one, other] = [Process::of(server).await, Process::of(server).await];
    let script = script(server, &one).await;
    let [mut old, mut new] = [Wire::of(server), Wire::of(server)];
    new.send(&format!("SUBSCRIBE lock:wake:{:032x}\r\n", other.number()));
    new.read_all();
    let (mut first, since) = ([0; 2], Bound::new(PATIENCE));
    while first.iter().all(|count| *count < 10) {
        let [held, waits] = [one.fifo("k"), other.fifo("k")];
        one.take(&held).await;
        other.wait(&waits).await;
        old.send(&format!("{in_front}EVALSHA {script} 1 k \"{} \"\r\n", token(&held)));
        let seen = loop {
            assert!(since.elapsed() < PATIENCE, "{first:?}");
            let before = old.is_ready();
            let heard = new.is_ready();
            match (before, heard, old.is_ready()) {
                (false, false, _) => {}
                (_, true, false) => break Some(0),
                (true, false, _) => break Some(1),
                (_, true, true) => break None,
            }
        };
        let (answer, told) = (old.read_all(), new.read_all());
        assert!(answer.contains(":1\r\n"), "{answer}");
        // If a waiter was not served, its heartbeat was due long ago: this machine has stopped for a while.
        if let Some(seen) = seen.filter(|_| told.contains(&format!("granted {} 0", token(&waits)))) {
            first[seen] += 1;
        }
        other.release(&waits).await;
    }
    first
}

#[tokio::test]
async fn the_new_holder_hears_before_the_old_one() {
    let server = RedisServer::start();
    let [new, old] = who_hears_first(&server, "TIME\r\n").await;
    assert!(new >= 10 && old <= 1, "{new} to {old}");
    // Without the command in front, the order is reversed, and these checks detect it.
    let [new, old] = who_hears_first(&server, "").await;
    assert!(old >= 10 && new <= 1, "{new} to {old}");
}

/// Returns a task that waits for the key, as soon as it is queued.
async fn waiting(server: &RedisServer, locks: &LockManager, places: i64) -> JoinHandle<LockGuard> {
    let request = locks.fair("k").ttl(LONG).wait(LONG);
    let task = tokio::spawn(async move { request.acquire().await.expect("a turn") });
    wait_until("it has its place", PATIENCE, async || queue(server, "k").0 == places).await;
    task
}

/// Releases, and returns whether `TIME` was sent directly before the release.
async fn has_time_in_front(recorder: &mut Recorder<'_>, guard: LockGuard) -> bool {
    recorder.take();
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    let sent = recorder.take();
    // The next holder may renew its lease at once, with more arguments.
    let is_release = |sent: &SentCommand| sent.name == "EVALSHA" && sent.arguments.len() == 4;
    let at = sent.iter().position(is_release).expect("a release");
    let in_front = sent[..at].iter().rfind(|other| other.client == sent[at].client);
    in_front.is_some_and(|other| other.name == "TIME")
}

#[tokio::test]
async fn only_a_release_for_others_has_a_command_in_front() {
    let server = RedisServer::start();
    let [a, b, c] = [manager(&server).await, manager(&server).await, manager(&server).await];
    let mut recorder = server.record();
    let mut times = [0; 4];
    for _ in 0..5 {
        let alone = try_once(&a, "k").await.expect("it is free");
        let alone = has_time_in_front(&mut recorder, alone).await;
        let first = a.fair("k").ttl(LONG).acquire().await.expect("it is free");
        let second = waiting(&server, &b, 1).await;
        let third = waiting(&server, &c, 2).await;
        let first = has_time_in_front(&mut recorder, first).await;
        let second = has_time_in_front(&mut recorder, second.await.expect("no panic")).await;
        let third = has_time_in_front(&mut recorder, third.await.expect("no panic")).await;
        for (count, one) in times.iter_mut().zip([alone, first, second, third]) {
            *count += usize::from(one);
        }
    }
    // Only the second holder knew of a waiter after it. Every connection also sends TIME twice a second, which may be
    // directly before a release. And a waiter with late heartbeats is granted the key after others.
    assert_eq!(times.map(|count| count >= 3), [false, false, true, false], "{times:?}");
}
