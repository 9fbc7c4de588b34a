//! Latencies, and their histogram.

use std::fmt::Write;
use std::time::Duration;

/// The number of columns of the histogram. Each column is a quarter of an octave wide, and the first one begins at 16
/// us.
const COLUMNS: usize = 72;
const FIRST: f64 = 16.0;
const PER_OCTAVE: f64 = 4.0;

/// The number of answers for each range of latencies.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    counts: [u64; COLUMNS],
    sum: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; COLUMNS], sum: Duration::ZERO }
    }
}

impl Latencies {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is cut off at both ends")]
    pub(crate) fn add(&mut self, took: Duration) {
        let octaves = (took.as_secs_f64() * 1e6 / FIRST).max(1.0).log2();
        let column = (octaves * PER_OCTAVE) as usize;
        self.counts[column.min(COLUMNS - 1)] += 1;
        self.sum += took;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    #[allow(clippy::cast_precision_loss, reason = "an average")]
    pub(crate) fn mean(&self) -> Duration {
        self.sum.div_f64(self.total().max(1) as f64)
    }

    /// Returns the latency that `of_1000` of a thousand answers do not exceed, rounded up to the end of its column.
    pub(crate) fn quantile(&self, of_1000: u64) -> Duration {
        let wanted = (self.total() * of_1000).div_ceil(1_000);
        let mut seen = 0;
        for (column, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return begin_of(column + 1);
            }
        }
        begin_of(COLUMNS)
    }
}

#[allow(clippy::cast_precision_loss, reason = "72 columns")]
fn begin_of(column: usize) -> Duration {
    Duration::from_secs_f64(FIRST * (column as f64 / PER_OCTAVE).exp2() / 1e6)
}

/// Draws the histograms of all sales below each other, as SVG.
pub(crate) fn chart<'a>(sales: impl Iterator<Item = (&'a str, &'a Latencies)>) -> String {
    let (mut body, mut top) = (String::new(), 0);
    for (name, latencies) in sales {
        top += 30;
        let _ = write!(body, "<text x=\"10\" y=\"{top}\">{name}: {} answers</text>", latencies.total());
        let most = latencies.counts.iter().copied().max().unwrap_or(0).max(1);
        for (column, count) in latencies.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (height, left) = ((100 * count).div_ceil(most), 10 + 10 * column);
            let _ = write!(
                body,
                "<rect x=\"{left}\" y=\"{}\" width=\"9\" height=\"{height}\"><title>{:?}: {count}</title></rect>",
                top + 110 - height,
                begin_of(column),
            );
        }
        top += 125;
        for column in (0..COLUMNS).step_by(8) {
            let _ = write!(
                body,
                "<text x=\"{}\" y=\"{top}\" class=\"axis\">{:.1?}</text>",
                10 + 10 * column,
                begin_of(column)
            );
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 {}\" font-family=\"sans-serif\" font-size=\"13\">\
         <style>rect {{ fill: #4878a8 }} .axis {{ font-size: 9px; fill: #666 }}</style>{body}</svg>\n",
        top + 15
    )
}
