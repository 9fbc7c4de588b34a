//! What the steps of a queue cost the server.

use lock_tests::RedisServer;

use crate::store::Process;

/// Fills a queue with claims that live long, and gives it the shape that asking for them would.
fn fill(server: &RedisServer, waiters: usize) {
    const FILL: &str = "
        local now = redis.call('TIME')[1] * 1000
        for i = 1, tonumber(ARGV[1]) do
          local token = string.format('%048x', i)
          redis.call('ZADD', '{k}:q', i, token)
          redis.call('HSET', '{k}:w', token, string.format('%.0f', now + 600000) .. ' 60000 x host=a pid=1 service= since=1')
        end";
    server.command(&["FLUSHALL"]);
    server.command(&["EVAL", FILL, "0", &waiters.to_string()]);
}

/// Microseconds of the server for a script, on average.
fn cost(server: &RedisServer) -> f64 {
    let text: String = server.get(&["INFO", "commandstats"]);
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("scripts ran");
    let cost = line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok());
    server.command(&["CONFIG", "RESETSTAT"]);
    cost.expect("a number")
}

/// The costs of one round of every step: of an attempt that queues, a sign of life, a cancel, a release that serves.
async fn costs(server: &RedisServer, process: &Process, waiters: usize) -> [f64; 4] {
    fill(server, waiters);
    let holder = process.barging("k");
    process.take(&holder).await;
    let claims: Vec<_> = (0..40).map(|_| process.fifo("k")).collect();
    server.command(&["CONFIG", "RESETSTAT"]);
    for claim in &claims {
        process.wait(claim).await;
    }
    let queue = cost(server);
    for claim in &claims {
        process.waits(claim).await;
    }
    let beat = cost(server);
    for claim in &claims {
        process.release(claim).await;
    }
    let cancel = cost(server);
    for _ in 0..10 {
        server.command(&["DEL", "k"]);
        let holder = process.barging("k");
        process.take(&holder).await;
        process.release(&holder).await;
    }
    [queue, beat, cancel, cost(server)]
}

#[tokio::test]
async fn a_long_queue_costs_no_more_than_a_short_one() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    // The least of three: another process on the machine must not decide.
    let mut least = [[f64::MAX; 4]; 2];
    for _ in 0..3 {
        for (least, waiters) in least.iter_mut().zip([20, 1_000]) {
            let round = costs(&server, &process, waiters).await;
            *least = std::array::from_fn(|at| least[at].min(round[at]));
        }
    }
    for at in 0..4 {
        assert!(least[1][at] < 3.0 * least[0][at], "{at}: {least:?}");
    }
}
