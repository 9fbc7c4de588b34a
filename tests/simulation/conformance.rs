//! The simulated server beside a real one: the same requests, the same answers. So what the simulation shows is not an
//! artefact of a server that was made up.

use std::rc::Rc;
use std::time::Duration;

use lock_tests::RedisServer;
use redis::Value;

use crate::audit::Audit;
use crate::journal::Journal;
use crate::server::{Server, ServerClock, Talk};

/// A server whose clock stands still.
fn simulated() -> Server {
    let journal = Journal::new(false);
    let server = Server::new(
        "s0".to_owned(),
        ServerClock::new(0, || Duration::ZERO),
        None,
        Audit::new(journal, false),
    );
    server.start();
    server
}

/// What the simulated server answers, as the driver reads it.
fn answer(server: &Server, talk: &mut Talk, words: &[&str]) -> Value {
    let mut bytes = Vec::new();
    server.answer(talk, words.iter().map(|word| word.as_bytes().to_vec()).collect()).write(&mut bytes);
    redis::parse_redis_value(&bytes).expect("an answer")
}

fn real_answer(server: &RedisServer, words: &[&str]) -> Value {
    server.try_command(words).unwrap_or_else(|error| {
        let code = error.code().unwrap_or_default().to_owned();
        Value::SimpleString(format!("error {code}"))
    })
}

/// Of an error the code counts, not the text.
fn told(value: Value) -> Value {
    match value {
        Value::ServerError(error) => Value::SimpleString(format!("error {}", error.code())),
        // The connection to the real server may speak RESP2, where a status and a text look alike.
        Value::VerbatimString { text, .. } => Value::BulkString(text.into_bytes()),
        other => other,
    }
}

/// Both are asked the same, one after another. `#` begins what only Lua can say in one line.
const REQUESTS: &[&str] = &[
    "PING",
    "GET a",
    "SET a 1 NX PX 60000",
    "SET a 2 NX PX 60000",
    "GET a",
    "EXISTS a b",
    "PEXPIRE a 50000 GT",
    "PEXPIRE a 70000 GT",
    "PEXPIRE b 1000",
    "SET c 1",
    "PTTL c",
    "PTTL b",
    "PEXPIRE c 1000 GT",
    "PTTL c",
    "DEL c b",
    "DEL c",
    "SET a x PX 0",
    "SET a x PX one",
    "HSET h f 1 g 2",
    "HSET h f 3",
    "HGET h f",
    "HGET h x",
    "HMGET h f x g",
    "HMGET none f",
    "HLEN h",
    "HLEN none",
    "HEXISTS h f",
    "HEXISTS h x",
    "HDEL h f g",
    "EXISTS h",
    "GET z",
    "HGET a f",
    "ZADD z 2 two",
    "ZADD z 1 one",
    "ZADD z NX 5 one",
    "ZADD z XX 7 three",
    "ZADD z XX 3 two",
    "ZADD z +inf end",
    "GET z",
    "ZCARD z",
    "ZRANGE z 0 -1",
    "ZRANGE z -2 -2",
    "ZRANGE z 5 9",
    "ZREVRANGE z 0 0",
    "ZRANK z two",
    "ZRANK z none",
    "ZRANK none two",
    "ZREM z none",
    "ZREMRANGEBYSCORE z -inf 1",
    "ZRANGE none 0 -1",
    "ZRANGE a 0 -1",
    "ZREM z two end",
    "EXISTS z",
    "DBSIZE",
    "EVALSHA 0000000000000000000000000000000000000000 0",
    "EXEC",
    "FLUSHALL",
    "DBSIZE",
];

/// What Lua makes of the answers, and the server of what Lua returns.
const SCRIPTS: &[&str] = &[
    "return {1, 2.9, 'x', true, false, 3}",
    "return {1, nil, 3}",
    "return redis.call('SET', 'k', 'v', 'PX', 60000)",
    "return redis.call('SET', 'k', 'v', 'NX') == false",
    "return {type(redis.call('GET', 'k')), type(redis.call('GET', 'none')), type(redis.call('EXISTS', 'k'))}",
    "return redis.call('PEXPIRE', 'k', 30000 * 2)",
    "return redis.pcall('HGET', 'k', 'f').err",
    "return redis.call('HGET', 'k', 'f')",
    "return {(pcall(redis.call, 'HGET', 'k', 'f')), (pcall(redis.call, 'GET', 'k'))}",
    "return redis.error_reply('WRONG this')",
    "return redis.call('ZADD', 's', 1763000000000 + 5, 'm')",
    "return redis.call('ZRANGE', 's', 0, 0, 'WITHSCORES')",
    "return redis.call('ZSCORE', 's', 'm')",
    "redis.call('ZADD', 's', '+inf', 'marker') return redis.call('ZREVRANGE', 's', 0, -1, 'WITHSCORES')",
    "return redis.call('ZSCORE', 's', 'none')",
    "redis.call('SET', 'n', 1763000000000001) return redis.call('GET', 'n')",
    "redis.call('SET', 'n', 0.5) return redis.call('GET', 'n')",
    "local time = redis.call('TIME') return {#time, #time[1]}",
    "return {KEYS[1], ARGV[1], #KEYS, #ARGV}",
    "return redis.REDIS_VERSION_NUM >= 0x070000",
    "return type(redis.replicate_commands())",
    "return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') ~= nil",
    "return string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)')",
    "return redis.call('PUBLISH', 'channel', 'word')",
    "return 1 +",
    "return nothing.at.all",
];

#[test]
fn the_simulated_server_answers_as_a_real_one() {
    let (real, simulated, mut talk) = (RedisServer::start(), simulated(), Talk::default());
    let mut compare = |words: &[&str]| {
        let (expected, found) = (told(real_answer(&real, words)), told(answer(&simulated, &mut talk, words)));
        assert_eq!(found, expected, "{words:?}");
    };
    for request in REQUESTS {
        compare(&request.split(' ').collect::<Vec<_>>());
    }
    for script in SCRIPTS {
        compare(&["EVAL", script, "1", "key", "argument"]);
    }
}

#[test]
fn a_transaction_is_answered_as_by_a_real_server() {
    let (server, mut talk) = (simulated(), Talk::default());
    let mut ask = |words: &[&str]| answer(&server, &mut talk, words);
    assert_eq!(ask(&["MULTI"]), Value::Okay);
    assert_eq!(ask(&["SET", "k", "v"]), Value::SimpleString("QUEUED".to_owned()));
    assert_eq!(ask(&["GET", "k"]), Value::SimpleString("QUEUED".to_owned()));
    assert_eq!(ask(&["EXEC"]), Value::Array(vec![Value::Okay, Value::BulkString(b"v".to_vec())]));
}

#[test]
fn a_restart_forgets_the_scripts_and_only_if_told_the_data() {
    let (server, mut talk) = (Rc::new(simulated()), Talk::default());
    let mut ask = |words: &[&str]| answer(&server, &mut talk, words);
    let Value::BulkString(name) = ask(&["SCRIPT", "LOAD", "return 7"]) else { panic!("no name") };
    let name = String::from_utf8(name).expect("digits");
    ask(&["SET", "k", "v"]);
    assert_eq!(ask(&["EVALSHA", &name, "0"]), Value::Int(7));
    server.start();
    assert!(matches!(ask(&["EVALSHA", &name, "0"]), Value::ServerError(_)));
    assert_eq!(ask(&["DBSIZE"]), Value::Int(1));
    server.forgets(true);
    server.start();
    assert_eq!(ask(&["DBSIZE"]), Value::Int(0));
}
