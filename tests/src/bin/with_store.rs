//! Runs a command with `LOCK_URL` set to a store that is started for it: `with_store etcd cargo run ..`. A Postgres
//! server is also the `STOCK_URL` and the `DATABASE_URL` of the examples. `LOCK_URL_ETCD` and so on contain the same
//! URL, for a command that needs several stores: `with_store etcd with_store redis ..`. The program exits with the
//! status of the command.
#![allow(clippy::print_stderr, reason = "what is wrong is said to whoever called")]

use std::process::{Command, ExitCode};

use lock_tests::{Etcd, PostgresServer, RedisServer, ZooKeeperServers};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (store, program) = (arguments.next().unwrap_or_default(), arguments.next());
    let Some(program) = program else {
        eprintln!(
            "expected a store and a command: with_store redis|redlock|postgres|etcd|zookeeper command .."
        );
        return ExitCode::FAILURE;
    };
    let mut command = Command::new(program);
    command.args(arguments);
    match store.as_str() {
        "redis" => {
            let server = RedisServer::start();
            run(&mut command, &store, server.url())
        }
        "redlock" => {
            let masters = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
            let hosts = masters.each_ref().map(|master| format!("127.0.0.1:{}", master.port())).join(",");
            // The servers vote as soon as the longest lease is over.
            run(&mut command, &store, format!("redlock://{hosts}/?max_ttl=1s"))
        }
        "postgres" => {
            let server = PostgresServer::start();
            let database = server.url_of("postgres");
            run(command.env("STOCK_URL", &database).env("DATABASE_URL", &database), &store, server.url())
        }
        "etcd" => {
            let server = Etcd::start();
            run(&mut command, &store, server.url())
        }
        "zookeeper" => {
            let servers = ZooKeeperServers::start();
            run(&mut command, &store, format!("{}?session_timeout=3s", servers.url("locks")))
        }
        other => {
            eprintln!(
                "`{other}` is no store that can be started: expected redis, redlock, postgres, etcd or zookeeper"
            );
            ExitCode::FAILURE
        }
    }
}

fn run(command: &mut Command, store: &str, url: String) -> ExitCode {
    command.env(format!("LOCK_URL_{}", store.to_uppercase()), &url).env("LOCK_URL", url);
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{:?}: {error}", command.get_program());
            ExitCode::FAILURE
        }
    }
}
