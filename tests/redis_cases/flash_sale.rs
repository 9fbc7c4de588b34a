//! Runs the example `flash_sale` while its Redis is killed and restarted without its data.

use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::cases::Program;

const FLASH_SALE: &str = env!("CARGO_BIN_EXE_flash_sale");

/// The number of orders that get a lock before the server is killed.
const SOME: u64 = 200;

/// Every restart forgets the lock while it is held, so two orders may hold it. The stock refuses the late one. So
/// nothing is oversold, and no order is lost.
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
#[tokio::test]
async fn a_redis_that_forgets_the_lock_does_not_oversell() {
    let mut server = RedisServer::start();
    let arguments = ["--seconds", "2", "--buyers", "64", "--stock", "2000000", "--processes", "3"];
    let mut sale = Program::start(FLASH_SALE, &arguments, &server.url(), "");
    let mut killed = 0;
    while !sale.has_ended() {
        wait_until("the lock is used, or all is sold", PATIENCE, async || {
            sale.has_ended() || granted(&server) > SOME
        })
        .await;
        if !sale.has_ended() && granted(&server) > SOME {
            server.kill9();
            server.restart();
            killed += 1;
        }
    }
    let (status, printed) = sale.ended().await;
    println!("Redis was killed {killed} times\n{printed}");
    assert!(status.success(), "{printed}");
    // This is the control: on the same machine, the sale without lock and comparison goes wrong.
    let row = |name: &str| printed.lines().find(|line| line.starts_with(name)).expect("a row").to_owned();
    let lost = |row: &str| row.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(0);
    assert!(lost(&row("careless")) > 0_i64, "{printed}");
    assert!(killed > 1, "{killed}");
}

/// Returns the number of scripts and plain SETs that the server has run since its start.
fn granted(server: &RedisServer) -> u64 {
    let used = |name: &str| server.command_stats().get(name).map_or(0, |(calls, _)| *calls);
    used("set") + used("evalsha")
}
