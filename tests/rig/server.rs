//! Servers start, stop, die and restart on command.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use lock_tests::{RedisServer, Replica};

#[test]
fn a_server_has_a_port_and_data_of_its_own() {
    let (one, two) = (RedisServer::start(), RedisServer::start());
    one.command(&["SET", "key", "value"]);
    assert_ne!(one.port(), two.port());
    assert_eq!(one.keys(), ["key"]);
    assert!(two.keys().is_empty());
}

#[test]
fn a_restart_keeps_the_port_and_loses_the_data() {
    let mut server = RedisServer::start();
    let (port, run) = (server.port(), server.info("run_id"));
    server.command(&["SET", "key", "value"]);
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.info("run_id"), run);
    assert!(server.keys().is_empty());
}

#[test]
fn after_kill9_connecting_is_refused_until_the_restart() {
    let mut server = RedisServer::start();
    let mut open = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    server.kill9();
    assert!(matches!(open.read(&mut [0]), Ok(0) | Err(_)), "an open connection ends");
    let refused = TcpStream::connect(("127.0.0.1", server.port())).expect_err("nothing listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.restart();
    server.command(&["PING"]);
}

#[test]
fn a_stopped_server_answers_only_when_it_goes_on() {
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).expect("a URL of Redis");
    let mut connection = client.get_connection().expect("the server runs");
    connection.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    server.stop();
    let answer: redis::RedisResult<String> = redis::cmd("PING").query(&mut connection);
    assert!(answer.is_err_and(|error| error.is_timeout()));
    server.cont();
    server.command(&["PING"]);
}

#[test]
fn a_password_is_asked_for_and_carried_by_the_url() {
    let server = RedisServer::builder().password("s3cret").start();
    server.command(&["ACL", "SETUSER", "reader", "on", ">pw", "~*", "+ping"]);
    let ping = |url: String| -> redis::RedisResult<String> {
        redis::cmd("PING").query(&mut redis::Client::open(url)?.get_connection()?)
    };
    assert!(ping(server.url()).is_ok());
    assert!(ping(server.url_for("reader", "pw")).is_ok());
    assert!(ping(server.url_for("reader", "wrong")).is_err());
    assert!(ping(format!("redis://127.0.0.1:{}/", server.port())).is_err());
    assert_eq!(server.record().take(), []);
}

#[test]
fn a_recorder_sees_what_clients_send_and_not_what_scripts_call() {
    let server = RedisServer::start();
    let mut recorder = server.record();
    server.command(&["EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", "key", "v"]);
    let sent = recorder.take();
    let names: Vec<_> =
        sent.iter().map(|command| command.name.as_str()).filter(|name| *name != "CLIENT").collect();
    assert_eq!(names, ["EVAL"]);
    assert_eq!(recorder.take(), []);
}

#[test]
fn a_detached_replica_misses_what_comes_after() {
    let primary = RedisServer::start();
    primary.command(&["SET", "before", "1"]);
    let replica = Replica::of(&primary);
    assert_eq!(replica.server().keys(), ["before"]);
    replica.detach(&primary);
    primary.command(&["SET", "after", "1"]);
    replica.promote();
    assert_eq!(replica.server().info("role"), "master");
    assert_eq!(replica.server().keys(), ["before"]);
}

#[test]
#[should_panic(expected = "redis-server ended at its start")]
fn a_server_that_cannot_start_says_why() {
    let _server = RedisServer::builder().config("no-such-option", "1").start();
}
