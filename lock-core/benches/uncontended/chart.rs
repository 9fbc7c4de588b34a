//! Draws the tables of Redis as a picture for the README.

use std::fmt::Write as _;

use crate::redis::Measured;
use crate::rig::{median, median_of};
use crate::tasks_of;

const WIDTH: f64 = 820.0;
const ROW: f64 = 24.0;
const NAMES: f64 = 190.0;
const BARS: f64 = 330.0;

/// Returns an SVG with a bar for the cycles per second of each kind, and with the CPU time of a cycle beside each bar.
pub(crate) fn svg(tables: &[(usize, Vec<Measured>)]) -> String {
    let mut body = String::new();
    let mut y = 26.0;
    for (tasks, table) in tables {
        y += panel(&mut body, y, *tasks, table);
    }
    let caption =
        "cycles per second: acquire and release of a free key on one Redis server; one core for each side";
    text(&mut body, 12.0, y, "#57606a", "normal", caption);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n",
        height = y + 14.0
    )
}

/// Draws the rows for one number of tasks and returns their height.
fn panel(body: &mut String, top: f64, tasks: usize, table: &[Measured]) -> f64 {
    text(body, 12.0, top, "#1f2328", "bold", &tasks_of(tasks));
    let rate = |measured: &Measured| median(measured.rounds.iter().map(|round| round.rate).collect());
    let most = table.iter().map(rate).fold(1.0, f64::max);
    for (row, measured) in (1_u8..).zip(table) {
        let y = top + f64::from(row) * ROW;
        let (rate, colour) =
            (rate(measured), if measured.name.starts_with("raw") { "#8c959f" } else { "#0969da" });
        text(body, 12.0, y, "#1f2328", "normal", measured.name);
        let length = BARS * rate / most;
        let _ = writeln!(
            body,
            "<rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"16\" fill=\"{colour}\"/>",
            y - 13.0
        );
        text(body, NAMES + length + 8.0, y, "#1f2328", "normal", &label(measured, rate));
    }
    #[allow(clippy::cast_precision_loss, reason = "a handful of rows")]
    let rows = table.len() as f64;
    (rows + 1.5) * ROW
}

fn label(measured: &Measured, rate: f64) -> String {
    let mut label = thousands(rate);
    for (whose, time) in [
        ("client", median_of(&measured.rounds, |round| round.client)),
        ("server", median_of(&measured.rounds, |round| round.server)),
    ] {
        if let Some(nanos) = time {
            let _ = write!(label, " \u{b7} {whose} {:.1} \u{b5}s", nanos / 1e3);
        }
    }
    label
}

/// Formats a rate: below 1,000 as a whole number, otherwise in thousands.
fn thousands(rate: f64) -> String {
    match rate {
        rate if rate < 1_000.0 => format!("{rate:.0}"),
        rate if rate < 10_000.0 => format!("{:.1} k/s", rate / 1e3),
        rate => format!("{:.0} k/s", rate / 1e3),
    }
}

fn text(body: &mut String, x: f64, y: f64, fill: &str, weight: &str, words: &str) {
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{fill}\" font-weight=\"{weight}\">{words}</text>"
    );
}
