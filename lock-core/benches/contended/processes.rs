//! Measures one key, with 4 processes of 8 tasks each.

use std::time::Duration;

use crate::Scale;
use crate::hot::{nanos, raw};
use crate::player::{Player, now};
use crate::rig::Server;
use crate::score::{Score, Table, load, per};

const PROCESSES: usize = 4;
const TASKS: usize = 8;
/// The tasks run for this long before the measurement begins. The last process has begun by then.
const WARM_UP: Duration = Duration::from_millis(300);

pub(crate) async fn run(server: &Server, scale: Scale) {
    println!(
        "hot key, {PROCESSES} processes of {TASKS} tasks ({} rounds of {:?}, medians; ratios are to the first row)",
        scale.rounds, scale.window
    );
    let connection = server.connection().await;
    for kind in ["lock", "fair"] {
        let (mut table, mut parts) = (Table::default(), Vec::new());
        let start = |_| Player::start(&server.url(), kind, TASKS);
        let mut players: Vec<Player> = (0..PROCESSES).map(start).collect();
        for _ in 0..scale.rounds {
            table.add_rate("raw, 1 task", raw(connection.clone(), 1, scale.window / 2).await);
            let before = load(server).await;
            let from = now() + nanos(WARM_UP);
            for player in &mut players {
                player.tell(&format!("contend {from} {}", from + nanos(scale.window)));
            }
            let by_process: Vec<Vec<Score>> = players.iter_mut().map(scores).collect();
            let load = load(server).await.since(before);
            table.add(&format!("lock-core, {kind}"), &by_process.concat(), scale.window, Some(load));
            let shares: Vec<u64> =
                by_process.iter().map(|scores| scores.iter().map(|score| score.acquisitions).sum()).collect();
            let fair = shares.iter().sum::<u64>() / PROCESSES as u64;
            parts.extend(shares.iter().map(|share| per(*share, fair)));
        }
        table.print();
        parts.sort_by(f64::total_cmp);
        println!("  {:<24} shares of the processes {:.2} to {:.2}", "", parts[0], parts[parts.len() - 1]);
    }
}

fn scores(player: &mut Player) -> Vec<Score> {
    let (counts, all) = (player.numbers(), player.numbers());
    let (unanswered, waits) = (player.numbers(), player.numbers());
    let mut waits = waits.into_iter();
    let score = |((acquisitions, with_warm_up), unanswered): ((u64, u64), u64)| {
        let waits = waits.by_ref().take(usize::try_from(acquisitions).unwrap_or(usize::MAX)).collect();
        Score { acquisitions, with_warm_up, unanswered, waits }
    };
    counts.into_iter().zip(all).zip(unanswered).map(score).collect()
}
