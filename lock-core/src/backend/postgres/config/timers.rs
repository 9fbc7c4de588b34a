//! The timers with which the server ends a session that is silent, or whose client is unreachable.
//!
//! A lock that is bound to a session ends with that session. So all of these timers are derived from the time for which
//! the holder relies on the session. None of them is shorter than that time.

use std::time::Duration;

/// The server begins to probe a silent client with keep-alives this long after a holder has ceased to rely on the
/// session.
const BEFORE_PROBES: Duration = Duration::from_secs(5);
/// The pause between two such probes, and the number of unanswered probes after which the client counts as unreachable.
const PROBE_EVERY: Duration = Duration::from_secs(3);
const PROBES: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    counted: Option<Duration>,
}

impl Timers {
    /// Creates the timers of a session. A holder relies on the session for `counted` after its last sign of life. If
    /// `counted` is `None`, no grant ends with the session.
    pub(super) const fn new(counted: Option<Duration>) -> Self {
        Self { counted }
    }

    /// Returns how long a client may be silent before the server ends the session, as a setting in ms. If no grant ends
    /// with the session, the value is 0, which means off.
    pub(crate) fn idle_session_timeout(self) -> String {
        self.counted.unwrap_or_default().as_millis().to_string()
    }

    /// Returns how long a client may be silent before the server begins to probe it.
    fn keepalives_idle(self) -> Duration {
        // The time is rounded up to whole seconds, because the server's setting is in seconds.
        let counted = self.counted.unwrap_or_default();
        Duration::from_secs(counted.as_secs() + u64::from(counted.subsec_nanos() > 0)) + BEFORE_PROBES
    }

    /// Returns the time after which the server disconnects a client that acknowledges no data.
    fn user_timeout(self) -> Duration {
        self.keepalives_idle() + PROBE_EVERY * (PROBES + 1) - Duration::from_secs(2)
    }

    /// Returns the settings with which the server detects an unreachable client and ends its session.
    pub(super) fn of_connection(self) -> [(&'static str, u128); 4] {
        [
            ("tcp_keepalives_idle", u128::from(self.keepalives_idle().as_secs())),
            ("tcp_keepalives_interval", u128::from(PROBE_EVERY.as_secs())),
            ("tcp_keepalives_count", u128::from(PROBES)),
            ("tcp_user_timeout", self.user_timeout().as_millis()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers(counted: Option<u64>) -> Timers {
        Timers::new(counted.map(Duration::from_millis))
    }

    /// If no grant depends on the session of an unreachable client, the server ends the session within 15 s.
    #[test]
    fn a_session_without_a_grant_ends_soon() {
        let names =
            ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"];
        let settings = timers(None).of_connection();
        assert_eq!(settings.map(|(name, _)| name), names);
        assert_eq!(settings.map(|(_, value)| value), [5, 3, 3, 15_000]);
        assert_eq!(timers(None).idle_session_timeout(), "0");
    }

    /// The holder relies on a session until a certain moment. Each timer of the server ends the session later.
    #[test]
    fn nothing_ends_a_session_before_its_holder_gives_up() {
        for counted in [1_000, 1_999, 2_000, 10_000, 15_000, 20_000, 60_000, 3_600_000] {
            let timers = timers(Some(counted));
            assert_eq!(timers.idle_session_timeout(), counted.to_string());
            let [(_, idle), (_, interval), (_, count), (_, unacknowledged)] = timers.of_connection();
            let counted = u128::from(counted);
            assert!(idle * 1_000 > counted, "the first question comes later: {idle} s, {counted} ms");
            assert!((idle + interval * count) * 1_000 > counted, "{counted} ms");
            assert!(unacknowledged > counted, "{unacknowledged} {counted}");
        }
    }
}
