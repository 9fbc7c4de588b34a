//! A TCP line that delays all bytes in both directions. It does not limit the number of bytes in flight.
//!
//! The line uses threads, because a timer of tokio fires up to a millisecond late. A round trip of 2 ms would then take
//! 4 ms.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A line in front of a server on this machine.
pub(crate) struct Line {
    pub(crate) port: u16,
}

impl Line {
    pub(crate) fn to(server: u16, each_way: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    pass(&client, &server, each_way);
                    pass(&server, &client, each_way);
                }
            }
        });
        Self { port }
    }
}

/// Forwards everything read from `from` to `to`. Each piece is delayed by `after`.
fn pass(from: &TcpStream, to: &TcpStream, after: Duration) {
    let (mut from, mut to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
    to.set_nodelay(true).expect("a socket");
    let (sender, pieces) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + after, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, piece) in pieces {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}
