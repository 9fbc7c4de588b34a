//! Collects the results of a load and prints them.

use std::time::Duration;

use crate::rig::{Server, median};

/// The results of one contender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    pub(crate) acquisitions: u64,
    /// The number of acquisitions, including those outside of the measured window.
    pub(crate) with_warm_up: u64,
    /// The number of releases without an answer.
    pub(crate) unanswered: u64,
    /// Every wait in ns.
    pub(crate) waits: Vec<u64>,
}

/// The commands of the server during a load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) scripts: u64,
    pub(crate) script_micros: u64,
    /// The number of `SET` commands, including the commands inside scripts.
    pub(crate) sets: u64,
}

impl Load {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            scripts: self.scripts - before.scripts,
            script_micros: self.script_micros - before.script_micros,
            sets: self.sets - before.sets,
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            scripts: self.scripts + other.scripts,
            script_micros: self.script_micros + other.script_micros,
            sets: self.sets + other.sets,
        }
    }

    /// Reads the answer to `INFO commandstats`.
    pub(crate) fn read(stats: &str) -> Self {
        let field = |command: &str, field: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")))?;
            let value = line.split(',').find_map(|part| part.strip_prefix(field)?.strip_prefix('='))?;
            value.trim().parse::<u64>().ok()
        };
        Self {
            scripts: field("evalsha", "calls").unwrap_or(0),
            script_micros: field("evalsha", "usec").unwrap_or(0),
            sets: field("set", "calls").unwrap_or(0),
        }
    }
}

/// Returns the commands that the server has executed so far.
pub(crate) async fn load(server: &Server) -> Load {
    Load::read(&server.command_stats().await)
}

#[allow(clippy::cast_precision_loss, reason = "counts")]
pub(crate) fn per(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}

/// Returns Jain's index: 1 if all shares are equal, and 1/n if one of n contenders has everything.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts")]
    let shares: Vec<f64> = shares.iter().map(|share| *share as f64).collect();
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|share| share * share).sum());
    if squares == 0.0 {
        return 0.0;
    }
    #[allow(clippy::cast_precision_loss, reason = "a count")]
    let n = shares.len() as f64;
    sum * sum / (n * squares)
}

/// Returns the quantile: the value that the fraction `share` of `sorted` does not exceed.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> Duration {
    if sorted.is_empty() {
        return Duration::ZERO;
    }
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let at = (sorted.len() as f64 * share) as usize;
    Duration::from_nanos(sorted[at.min(sorted.len() - 1)])
}

/// Returns p50, p99 and the largest value, in ms.
pub(crate) fn spread(mut values: Vec<u64>) -> String {
    values.sort_unstable();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(&values, share).as_secs_f64() * 1e3);
    format!("p50 {p50:>8.3}  p99 {p99:>8.3}  max {max:>8.3} ms")
}

/// The rounds of each row, by the name of the row.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(String, Vec<Round>)>);

#[derive(Debug)]
struct Round {
    rate: f64,
    p50: f64,
    p99: f64,
    max: f64,
    jain: f64,
    unanswered: u64,
    commands: Option<(f64, f64)>,
}

impl Table {
    /// Adds a round to the row `name`. `scores` are the results of the round, and `took` is its duration.
    pub(crate) fn add(&mut self, name: &str, scores: &[Score], took: Duration, load: Option<Load>) {
        let shares: Vec<u64> = scores.iter().map(|score| score.acquisitions).collect();
        let mut waits: Vec<u64> = scores.iter().flat_map(|score| score.waits.iter().copied()).collect();
        waits.sort_unstable();
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(&waits, share).as_secs_f64() * 1e3);
        let all = scores.iter().map(|score| score.with_warm_up).sum();
        #[allow(clippy::cast_precision_loss, reason = "a count")]
        let rate = shares.iter().sum::<u64>() as f64 / took.as_secs_f64();
        let unanswered = scores.iter().map(|score| score.unanswered).sum();
        let commands = load.map(|load| (per(load.scripts, all), per(load.sets, all)));
        self.put(name, Round { rate, p50, p99, max, jain: jain(&shares), unanswered, commands });
    }

    /// Adds a round for which only the rate is known.
    pub(crate) fn add_rate(&mut self, name: &str, rate: f64) {
        let (p50, p99, max, jain) = (f64::NAN, f64::NAN, f64::NAN, f64::NAN);
        self.put(name, Round { rate, p50, p99, max, jain, unanswered: 0, commands: None });
    }

    fn put(&mut self, name: &str, round: Round) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, rounds)) => rounds.push(round),
            None => self.0.push((name.to_owned(), vec![round])),
        }
    }

    /// Prints each row: the medians of its rounds, the longest wait, and the smallest [index](jain). Ratios are to the
    /// first row.
    pub(crate) fn print(&self) {
        let middle = |rounds: &[Round], of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
        let base = self.0.first().map_or(1.0, |(_, rounds)| middle(rounds, |round| round.rate));
        for (name, rounds) in &self.0 {
            let rate = middle(rounds, |round| round.rate);
            print!("  {name:<24} {rate:>10.0}/s {:>6.2} x", rate / base);
            if rounds.iter().any(|round| round.jain.is_nan()) {
                println!();
                continue;
            }
            let (p50, p99) = (middle(rounds, |round| round.p50), middle(rounds, |round| round.p99));
            let max = rounds.iter().map(|round| round.max).fold(0.0, f64::max);
            let jain = rounds.iter().map(|round| round.jain).fold(1.0, f64::min);
            print!("   wait p50 {p50:.3} p99 {p99:.3} max {max:.3} ms   Jain {jain:.4}");
            if rounds.iter().all(|round| round.commands.is_some()) {
                let scripts = middle(rounds, |round| round.commands.map_or(0.0, |(scripts, _)| scripts));
                let sets = middle(rounds, |round| round.commands.map_or(0.0, |(_, sets)| sets));
                print!("   {scripts:.3} scripts {sets:.3} SET each");
            }
            println!();
            let unanswered: u64 = rounds.iter().map(|round| round.unanswered).sum();
            if unanswered > 0 {
                println!("  {:<24} {unanswered} releases without an answer", "");
            }
        }
    }
}
