//! Who hears first of a hand-off between processes: the new holder, and then the one that releases.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use lock_core::backend::{Claim, Released};
use lock_tests::{PATIENCE, RedisServer};

use crate::store::{Process, token};

/// A connection to the server, as it is on the wire.
struct Wire(TcpStream);

impl Wire {
    /// Connects, and subscribes to the messages for `process`.
    fn of(server: &RedisServer, process: Option<u128>) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server is up");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut wire = Self(stream);
        let subscribe =
            process.map(|process| format!("SUBSCRIBE lock:wake:{process:032x}\r\n")).unwrap_or_default();
        wire.send(&format!("HELLO 3\r\n{subscribe}ECHO ready\r\n"));
        wire.read_to("ready\r\n");
        wire
    }

    fn send(&mut self, commands: &str) {
        self.0.write_all(commands.as_bytes()).expect("the server is up");
    }

    /// Reads up to `end`, and returns all of it.
    fn read_to(&mut self, end: &str) -> String {
        let mut text = String::new();
        let mut bytes = [0; 4_096];
        while !text.ends_with(end) {
            let count = self.0.read(&mut bytes).expect("the server answers");
            text.push_str(std::str::from_utf8(&bytes[..count]).expect("ASCII"));
        }
        text
    }

    /// Returns whether there is something to read.
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

/// Returns how often `new` had something to read before `old` had, and how often it was the other way about, until one
/// of the two has been seen ten times. Rounds in which this thread looked too late do not count.
async fn who_hears_first(server: &RedisServer, old_is_subscribed: bool) -> [usize; 2] {
    let [one, other] = [Process::of(server).await, Process::of(server).await];
    let script = script(server, &one).await;
    let mut old = Wire::of(server, old_is_subscribed.then(|| one.number()));
    let mut new = Wire::of(server, Some(other.number()));
    let (mut first, began) = ([0; 2], Instant::now());
    while first.iter().all(|count| *count < 10) {
        assert!(began.elapsed() < PATIENCE, "{first:?}");
        let [held, waits]: [Claim; 2] = [one.fifo("k"), other.fifo("k")];
        one.take(&held).await;
        other.wait(&waits).await;
        if old_is_subscribed {
            old.read_to("contended k\r\n");
        }
        old.send(&format!("EVALSHA {script} 1 k \"{} \"\r\n", token(&held)));
        loop {
            let before = old.is_ready();
            let heard = new.is_ready();
            match (before, heard, old.is_ready()) {
                (false, false, _) => continue,
                (_, true, false) => first[0] += 1,
                (true, false, _) => first[1] += 1,
                (_, true, true) => {}
            }
            break;
        }
        let told = new.read_to(" 0\r\n");
        assert!(told.contains(&format!("granted {} 0", token(&waits))), "{told}");
        let answer = old.read_to(":1\r\n");
        assert_eq!(answer.contains("lock:wake"), old_is_subscribed, "{answer}");
        assert_eq!(other.release(&waits).await, Released::Released);
    }
    first
}

#[tokio::test]
async fn the_new_holder_hears_before_the_old_one() {
    let server = RedisServer::start();
    let [new, old] = who_hears_first(&server, true).await;
    assert!(new >= 10 && old <= 1, "{new} to {old}");
    // Without a subscription there is nothing to write before the answer, so the other way about: these looks can tell.
    let [new, old] = who_hears_first(&server, false).await;
    assert!(old >= 10 && new <= 1, "{new} to {old}");
}

/// Both would arrive over the same connection.
#[tokio::test]
async fn nothing_more_is_sent_inside_one_process() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let script = script(&server, &process).await;
    let [held, waits] = [process.fifo("k"), process.fifo("k")];
    process.take(&held).await;
    process.wait(&waits).await;
    let mut wire = Wire::of(&server, Some(process.number()));
    wire.send(&format!("EVALSHA {script} 1 k \"{} \"\r\n", token(&held)));
    assert_eq!(wire.read_to(":1\r\n").matches("message").count(), 1);
}
