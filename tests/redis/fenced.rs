//! Fencing tokens that come with the grant: their cost, and their effect on the data of other programs.

use lock_core::backend::{Ask, Attempt, Backend, Claim, Grant, Mode, Queue, Released};
use lock_core::{LockErrorKind, backend::FencingToken};
use lock_tests::RedisServer;

use crate::store::{Process, token};

const CYCLES: usize = 400;

fn fenced(process: &Process, key: &str, queue: Queue) -> Claim {
    let mut claim = process.claim(key, Mode::Exclusive, queue);
    claim.fencing = true;
    claim
}

async fn granted(process: &Process, claim: &Claim, ask: Ask) -> Grant {
    match process.redis.acquire(claim, ask).await.expect("an answer") {
        Attempt::Granted(grant) => grant,
        Attempt::Held(held) => panic!("held: {held:?}"),
    }
}

/// The ways to acquire a free key together with its token.
const WAYS: [(Queue, Ask); 4] = [
    (Queue::Barging, Ask::Probe),
    (Queue::Barging, Ask::Enqueue { room: None }),
    (Queue::Fifo, Ask::Try),
    (Queue::Fifo, Ask::Enqueue { room: None }),
];

#[tokio::test]
async fn a_token_grows_and_is_remembered_with_its_holder() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    for (key, last) in [("k", "{k}:f"), ("{tag}k", "{tag}{{tag}k}:f"), ("a}b", "{a}b}:f"), ("{a", "{{a}:f")] {
        let mut before = 0;
        for (queue, ask) in WAYS {
            let claim = fenced(&process, key, queue);
            let fence = granted(&process, &claim, ask).await.fence.expect("it comes with the grant").get();
            assert!(fence > before, "{key} {queue:?} {ask:?}");
            assert_eq!(server.get::<String>(&["GET", last]), format!("{fence} {}", token(&claim)));
            assert!(server.get::<i64>(&["PTTL", last]) > 60_000);
            // First the claim is requested again, and then only the token.
            assert_eq!(granted(&process, &claim, ask).await.fence.map(FencingToken::get), Some(fence));
            assert_eq!(process.redis.fence(&claim).await.expect("it holds").get(), fence);
            assert_eq!(process.release(&claim).await, Released::Released);
            before = fence;
        }
        assert_eq!(server.keys(), [last]);
        server.command(&["DEL", last]);
    }
}

#[tokio::test]
async fn a_token_is_above_the_last_whoever_has_made_that() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let ahead = 8_000_000_000_000_000_u64;
    for (queue, ask) in WAYS {
        // The last token is ahead of the clock, is from an earlier time (by a hand-off or a renewal), or is shorter
        // than any in use.
        for (last, is_ahead) in [
            (format!("{ahead} {}", "a".repeat(48)), true),
            (format!("{ahead} -"), true),
            (format!("1700000000000000 {}:7", "a".repeat(48)), false),
            ("1700000000000000 -".to_owned(), false),
            (format!("7 {}", "a".repeat(48)), false),
        ] {
            server.command(&["SET", "{k}:f", &last, "PX", "60000"]);
            let claim = fenced(&process, "k", queue);
            let fence = granted(&process, &claim, ask).await.fence.expect("it comes with the grant").get();
            assert_eq!((fence == ahead + 1, claim.is_fence_ahead()), (is_ahead, is_ahead), "{last}: {fence}");
            assert!(fence > 1_700_000_000_000_000, "{last}: {fence}");
            assert_eq!(server.get::<String>(&["GET", "{k}:f"]), format!("{fence} {}", token(&claim)));
            assert_eq!(granted(&process, &claim, ask).await.fence.map(FencingToken::get), Some(fence));
            process.release(&claim).await;
        }
    }
}

#[tokio::test]
async fn other_data_in_the_place_of_the_token_stay_and_nothing_is_taken() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let texts = ["5", "", "other data", "1700000000000000", "17 two words", "no number and of some length"];
    for (queue, ask) in WAYS {
        let refused = async |what: &str| {
            let error = process.redis.acquire(&fenced(&process, "k", queue), ask).await.expect_err(what);
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{what}: {error}");
            assert_eq!(server.keys(), ["{k}:f"], "{what}, {queue:?} {ask:?}");
        };
        for text in texts {
            server.command(&["SET", "{k}:f", text]);
            refused(text).await;
            assert_eq!(server.get::<String>(&["GET", "{k}:f"]), text);
        }
        server.command(&["DEL", "{k}:f"]);
        server.command(&["RPUSH", "{k}:f", "a"]);
        refused("a list").await;
        assert_eq!(server.get::<i64>(&["LLEN", "{k}:f"]), 1);
        server.command(&["DEL", "{k}:f"]);
    }
}

/// Returns the average time of a script on the server in microseconds, and the commands that the scripts called.
fn spent(server: &RedisServer) -> (f64, Vec<(String, u64)>) {
    let mut stats = server.command_stats();
    let (scripts, micros) = stats.remove("evalsha").expect("scripts ran");
    server.command(&["CONFIG", "RESETSTAT"]);
    // A connection requests the time on its own, and subscribes once.
    let calls = stats
        .into_iter()
        .filter(|(name, _)| name != "time" && name != "subscribe")
        .map(|(name, (calls, _))| (name, calls));
    (micros as f64 / scripts as f64, calls.collect())
}

#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
#[tokio::test]
async fn a_free_lock_with_its_token_costs_two_writes_and_the_time() {
    let server = RedisServer::start();
    let process = Process::at(&format!("{}?timeout=10s", server.url())).await;
    let least = |least: &mut f64, micros: f64| *least = least.min(micros);
    let [mut acquire, mut release] = [f64::MAX; 2];
    let count = CYCLES as u64;
    // The test uses the minimum of a few rounds, so that other processes on the machine do not affect the result.
    for _ in 0..5 {
        let claims: Vec<_> =
            (0..CYCLES).map(|n| fenced(&process, &format!("k{n}"), Queue::Barging)).collect();
        server.command(&["CONFIG", "RESETSTAT"]);
        for claim in &claims {
            granted(&process, claim, Ask::Probe).await;
        }
        let (micros, calls) = spent(&server);
        assert_eq!(calls, [("set".to_owned(), 2 * count)]);
        least(&mut acquire, micros);
        for claim in &claims {
            process.release(claim).await;
        }
        let (micros, calls) = spent(&server);
        assert_eq!(calls, [("del".to_owned(), count), ("getrange".to_owned(), count)]);
        least(&mut release, micros);
    }
    println!("server us: acquire with a token {acquire:.2}, release {release:.2}");
}
