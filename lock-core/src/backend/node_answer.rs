//! The answers of a server to the regular pings of its connection.

use std::time::Duration;

/// The answer of one server of a store to a ping.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NodeAnswer<'a> {
    /// The address of the server, without a password.
    pub node: &'a str,
    /// The time from the ping to the answer.
    pub round_trip: Duration,
    /// The number of seconds by which the server's clock is ahead of this machine's wall clock; negative if the
    /// server's clock is behind. The number is wrong by at most half the round trip. `None` if the ping did not request
    /// the server's time.
    pub clock_ahead: Option<f64>,
}

impl<'a> NodeAnswer<'a> {
    /// Creates an answer without a time.
    #[must_use]
    pub fn new(node: &'a str, round_trip: Duration) -> Self {
        Self { node, round_trip, clock_ahead: None }
    }

    /// Adds the server's time, in microseconds since the Unix epoch. `wall` is the time of this machine since the Unix
    /// epoch, read when the answer arrived.
    #[must_use]
    pub fn at(self, server_micros: i64, wall: Duration) -> Self {
        // The server read its clock at an unknown moment between request and answer. The middle between the two differs
        // from that moment by at most half the round trip.
        let asked = wall.saturating_sub(self.round_trip / 2);
        #[allow(clippy::cast_precision_loss, reason = "an f64 counts the microseconds of 285 years")]
        let server = server_micros as f64 / 1e6;
        Self { clock_ahead: Some(server - asked.as_secs_f64()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_compared_with_the_middle_of_the_exchange() {
        let wall = Duration::from_secs(1_800_000_000);
        for (round_trip_ms, server_ms_after, expected) in [
            (0, 0, 0.0),
            // The answer took 100 ms, so the server read its clock 50 ms ago.
            (100, -50, 0.0),
            (100, 0, 0.05),
            (2, 30_999, 31.0),
            (2, -3_600_001, -3_600.0),
        ] {
            let server = (1_800_000_000_000_i64 + server_ms_after) * 1_000;
            let answer = NodeAnswer::new("a", Duration::from_millis(round_trip_ms)).at(server, wall);
            let ahead = answer.clock_ahead.expect("it was asked");
            assert!(
                (ahead - expected).abs() < 1e-5,
                "{server_ms_after} ms after {round_trip_ms} ms: {ahead}"
            );
        }
    }
}
