//! Compares the simulated server with a real one. The same requests must get the same answers. So a result of the
//! simulation does not come from a wrong model of the server.

use std::rc::Rc;
use std::time::Duration;

use lock_core::testkit::scripts;
use lock_tests::RedisServer;
use redis::Value;

use crate::audit::Audit;
use crate::journal::Journal;
use crate::server::{Server, ServerClock, Talk};
use crate::world::Flaw;

/// Returns a server whose clock does not move.
fn simulated() -> Server {
    let journal = Journal::new(false);
    let server = Server::new(
        "s0".to_owned(),
        ServerClock::new(0, || Duration::ZERO),
        &Flaw::default(),
        Audit::new(journal, false, Duration::from_secs(1)),
    );
    server.start();
    server
}

/// Returns the answer of the simulated server as the driver reads it.
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

/// Keeps only the code of an error, not its text.
fn told(value: Value) -> Value {
    match value {
        Value::ServerError(error) => Value::SimpleString(format!("error {}", error.code())),
        // The connection to the real server may use RESP2, in which a status and a text look alike.
        Value::VerbatimString { text, .. } => Value::BulkString(text.into_bytes()),
        other => other,
    }
}

/// The requests that both servers get in sequence. `#` marks a line of Lua.
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
    "SET text abcdef",
    "GETRANGE text 1 3",
    "GETRANGE text 4 9",
    "GETRANGE text 9 12",
    "GETRANGE nothing 0 3",
    "GETRANGE h 0 3",
    "SETRANGE text 2 XY",
    "GET text",
    "SETRANGE text -1 X",
    "SETRANGE h 0 X",
    "SET text new PX 60000 GET",
    "SET unknown new PX 60000 GET",
    "SET h new GET",
    "GET text",
    "PTTL h",
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

/// Scripts that convert answers to Lua values, and Lua values to answers.
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

const ACQUIRE: &str = "Acquire";
const ACQUIRE_ALL: &str = "AcquireAll";
const HEARTBEAT: &str = "Heartbeat";
const RENEW: &str = "Renew";
const RELEASE: &str = "Release";
const FENCE: &str = "Fence";
const DOWNGRADE: &str = "Downgrade";

/// The calls. Each has the name of a script of the library or a text, the keys, and the arguments. `A`, `B` and `C` are
/// owners. `A+` is the stored value of an owner, and `A_` is its beginning. `never` is a time that never comes, and
/// `lease` is a minute.
const CALLS: &[(&str, &str, &str)] = &[
    (ACQUIRE, "k", "A A+ lease never 0 s - 1"),
    (ACQUIRE, "k", "B B+ lease never lease s - 1"),
    (ACQUIRE, "k", "B B+ lease never lease s - 1"),
    (ACQUIRE, "k", "C C+ lease never 0 x - 1"),
    (ACQUIRE, "k", "C C+ lease 1 0 s - 1"),
    (ACQUIRE_ALL, "j k", "C C+ lease never 0"),
    (RENEW, "k k j", "A+ lease B+ lease C lease"),
    (FENCE, "k", "A lease A 0 A+"),
    (FENCE, "k", "C lease C 0"),
    (RELEASE, "k", "C_"),
    (RELEASE, "k", "A_ s A+ 0 lease"),
    (RELEASE, "k", "A_ s A+ 0 lease"),
    (RENEW, "k k", "A+ lease B+ lease"),
    (RELEASE, "k", "B_ s B+ 0 lease"),
    (ACQUIRE, "k", "C C+ lease never lease x - 1"),
    (ACQUIRE, "k", "A A+ lease never 0 s - 1"),
    (DOWNGRADE, "k", "A A+ lease"),
    (DOWNGRADE, "k", "C C+ lease"),
    (DOWNGRADE, "k", "C C+ lease"),
    (ACQUIRE, "k", "A A+ lease never 0 s - 1"),
    (RENEW, "k", "C lease"),
    (RELEASE, "k", "C_ s C+ 0 lease"),
    (RELEASE, "k", "A_ s A+ 0 lease"),
    (ACQUIRE_ALL, "j k", "A A+ lease never lease"),
    (ACQUIRE_ALL, "j k", "A A+ lease never lease"),
    (ACQUIRE_ALL, "k z", "B B+ lease never 0"),
    (ACQUIRE, "j", "B B+ lease never 0 x - 1"),
    (RENEW, "j k", "A lease A lease"),
    (FENCE, "j k", "A lease A 0"),
    ("return redis.call('DEL', KEYS[1])", "k", ""),
    (RENEW, "j k", "A lease A lease"),
    (FENCE, "j k", "A lease A 0"),
    (ACQUIRE, "k", "B B+ lease never 0 x - 1"),
    (RENEW, "j k", "A lease A lease"),
    (ACQUIRE_ALL, "j k", "A A+ lease never 0"),
    (RELEASE, "j k", "A_ x - 0 lease"),
    (RELEASE, "k", "B_"),
    (ACQUIRE, "k", "A A+ lease never lease x - 1"),
    (ACQUIRE, "k", "A A+ lease never lease x - 1"),
    (ACQUIRE, "k", "B B+ lease never lease x - 1"),
    (ACQUIRE, "k", "B B+ lease never lease x 9 1"),
    (HEARTBEAT, "k", "B B+ lease x"),
    (RENEW, "k k", "A lease A+ lease"),
    ("return redis.call('GETRANGE', KEYS[1], '48', '60')", "k", ""),
    (ACQUIRE, "k", "C C+ lease never 0 x 9 1"),
    (RELEASE, "k", "A_"),
    ("return redis.call('GETRANGE', KEYS[1], '48', '60')", "k", ""),
    (HEARTBEAT, "k", "B B+ lease x"),
    (RELEASE, "k", "B_"),
    (HEARTBEAT, "k", "C C+ lease x"),
    ("return redis.call('GETRANGE', KEYS[1], '48', '60')", "k", ""),
    (RELEASE, "k", "C_"),
    ("return redis.call('SET', '{' .. KEYS[1] .. '}:f', '8000000000000000 ' .. ARGV[1])", "k", "B"),
    (ACQUIRE, "k", "A A+ lease never lease x - 1"),
    (RELEASE, "k", "A_"),
    ("return redis.call('SET', '{' .. KEYS[1] .. '}:f', ARGV[1])", "k", "other-data"),
    (ACQUIRE, "k", "A A+ lease never lease x - 1"),
    ("return {redis.call('GET', '{' .. KEYS[1] .. '}:f'), redis.call('EXISTS', KEYS[1])}", "k", ""),
    ("redis.call('DEL', KEYS[1]) return redis.call('ZADD', KEYS[1], 1, 'member')", "{k}:f", ""),
    (ACQUIRE, "k", "A A+ lease never lease x - 1"),
    ("return redis.call('EXISTS', KEYS[1])", "k", ""),
    // Claims that share a grant may follow a holder of their own process, but not one of another process.
    (ACQUIRE, "g", "A A+ lease never 0 x 9 2"),
    (ACQUIRE, "g", "A' A'+ lease never 0 x 9 2"),
    ("return redis.call('EXISTS', '{g}:q', '{g}:w')", "g", ""),
    (ACQUIRE, "g", "B B+ lease never 0 x 9 2"),
    (ACQUIRE, "g", "A' A'+ lease never 0 x 9 2"),
    (ACQUIRE, "g", "A' A'+ lease never 0 x 9 2"),
    (RELEASE, "g", "A_"),
    ("return redis.call('GETRANGE', KEYS[1], '46', '60')", "g", ""),
    (RELEASE, "g", "B_"),
    ("return redis.call('GETRANGE', KEYS[1], '46', '60')", "g", ""),
    ("return redis.call('ZADD', KEYS[1], 1, 'member')", "set", ""),
    (ACQUIRE, "set", "A A+ lease never 0 s - 1"),
    (DOWNGRADE, "set", "A A+ lease"),
    (RELEASE, "set", "A_"),
];

fn owner(letter: &str) -> String {
    letter.to_lowercase().repeat(48)
}

fn argument(word: &str) -> String {
    match word {
        "A" | "B" | "C" => owner(word),
        // `A'` is another owner of the process of `A`.
        "A'" => format!("{}0", &owner("A")[1..]),
        "A'+" => format!("{}0 pid=1", &owner("A")[1..]),
        "A_" | "B_" | "C_" => format!("{} ", owner(&word[..1])),
        "A+" | "B+" | "C+" => format!("{} pid=1", owner(&word[..1])),
        "-" => String::new(),
        "never" => "9000000000000000".to_owned(),
        "lease" => "60000".to_owned(),
        word => word.to_owned(),
    }
}

/// Removes times and run ids, which differ between the servers.
fn alike(value: Value) -> Value {
    match told(value) {
        Value::Int(number) if number >= 1_000 => Value::Int(1_000),
        // This is the short answer: granted, with the time as the token. On a server whose clock does not move, the
        // second token is not a time.
        Value::BulkString(text) if text.len() == 16 && text.iter().all(u8::is_ascii_digit) => {
            Value::Array(vec![Value::Int(1), Value::Int(1_000), Value::Nil, Value::Int(1_000)])
        }
        Value::BulkString(text) if text.len() >= 40 && text[..40].iter().all(u8::is_ascii_hexdigit) => {
            // A run id is alone, or in a marker with a time and a lease after it.
            let rest = String::from_utf8_lossy(&text[40..]).into_owned();
            let rest: Vec<_> =
                rest.split(' ').map(|word| if word.len() > 10 { "a time" } else { word }).collect();
            Value::BulkString(format!("a run id{}", rest.join(" ")).into_bytes())
        }
        Value::Array(all) => Value::Array(all.into_iter().map(alike).collect()),
        other => other,
    }
}

/// Starts a real server, and a simulated one whose clock shows the same time.
fn both() -> (RedisServer, Server) {
    let (real, simulated) = (RedisServer::start(), simulated());
    let Ok(Value::Array(time)) = real.try_command(&["TIME"]) else { panic!("no time") };
    let part = |at: usize| match &time[at] {
        Value::BulkString(text) => String::from_utf8_lossy(text).parse::<i64>().expect("a number"),
        other => panic!("{other:?}"),
    };
    simulated.clock.step(part(0) * 1_000_000 + part(1) - simulated.clock.now());
    (real, simulated)
}

#[test]
fn the_scripts_as_they_are_shipped_answer_as_on_a_real_server() {
    let ((real, simulated), mut talk) = (both(), Talk::default());
    for (number, (script, keys, arguments)) in CALLS.iter().enumerate() {
        let keys: Vec<_> = keys.split(' ').collect();
        let count = keys.len().to_string();
        let arguments: Vec<_> = arguments.split(' ').filter(|word| !word.is_empty()).map(argument).collect();
        let arguments = arguments.iter().map(String::as_str);
        let script = &scripts::shipped(script).unwrap_or_else(|| (*script).to_owned());
        let words: Vec<_> = ["EVAL", script, &count].into_iter().chain(keys).chain(arguments).collect();
        let (expected, found) =
            (alike(real_answer(&real, &words)), alike(answer(&simulated, &mut talk, &words)));
        assert_eq!(found, expected, "call {number}, {:?}", &words[2..]);
    }
}

/// A server counts its evicted keys. It keeps the marker of a voter, because the marker has no expiry.
#[test]
fn an_eviction_is_what_a_real_server_does() {
    let ((real, simulated), mut talk) = (both(), Talk::default());
    let mut compare = |words: &[&str]| {
        let (expected, found) =
            (alike(real_answer(&real, words)), alike(answer(&simulated, &mut talk, words)));
        assert_eq!(found, expected, "{words:?}");
        found
    };
    const EVICTED: &str = "return string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)')";
    let boot = ["EVAL", &scripts::voter_boot(), "1", "lock:voter", "1000", "0"];
    compare(&boot);
    compare(&["SET", "k", "v", "NX", "PX", "60000"]);
    for setting in [["maxmemory-policy", "volatile-ttl"], ["maxmemory", "1"], ["maxmemory", "0"]] {
        assert_eq!(real.try_command(&["CONFIG", "SET", setting[0], setting[1]]).expect("set"), Value::Okay);
    }
    simulated.evict("k");
    compare(&["GET", "k"]);
    compare(&["EVAL", EVICTED, "0"]);
    let Value::Array(registered) = compare(&boot) else { panic!("no array") };
    assert_eq!(registered[2], Value::Int(3), "keys were evicted since");
    let Value::Array(registered) = compare(&boot) else { panic!("no array") };
    assert_eq!(registered[2], Value::Int(0), "it is told once");
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
