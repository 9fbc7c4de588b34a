//! Counts the keys that a server has evicted.
//!
//! When the library connects to a server, it warns about a policy that permits evictions. But the policy may be set
//! later, so this module counts the actual evictions.

use crate::sync::Mutex;

use super::probe::field;

/// The number of evicted keys in the latest answer over any connection.
#[derive(Debug, Default)]
pub(crate) struct Evictions(Mutex<Option<Count>>);

#[derive(Debug, PartialEq, Eq)]
struct Count {
    /// The server's run id. After a restart, and on another server, the count starts again at zero.
    run: String,
    keys: u64,
}

impl Evictions {
    /// Reads an answer to `INFO`. Returns how many keys were evicted since the last answer.
    pub(super) fn more(&self, info: &str) -> u64 {
        let keys = field(info, "evicted_keys").and_then(|text| text.parse::<u64>().ok());
        let (Some(run), Some(keys)) = (field(info, "run_id"), keys) else { return 0 };
        let mut last = self.0.lock();
        match &mut *last {
            Some(count) if count.run == run => {
                // CONFIG RESETSTAT resets the count to zero.
                let more = keys.saturating_sub(count.keys);
                count.keys = keys;
                more
            }
            // The first count of a run cannot be compared with an earlier count.
            last => {
                *last = Some(Count { run: run.to_owned(), keys });
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_once() {
        let evictions = Evictions::default();
        let table = [
            // Evictions before the first answer are not reported.
            ("a", "5", 0),
            ("a", "5", 0),
            ("a", "9", 4),
            ("a", "9", 0),
            // A new run id means another server, or the same server after a restart.
            ("b", "7", 0),
            ("b", "8", 1),
            ("a", "20", 0),
            ("a", "x", 0),
            ("a", "21", 1),
            // CONFIG RESETSTAT makes the count smaller.
            ("a", "0", 0),
            ("a", "2", 2),
        ];
        for (run, keys, expected) in table {
            let info = format!("# Server\r\nrun_id:{run}\r\n# Stats\r\nevicted_keys:{keys}\r\n");
            assert_eq!(evictions.more(&info), expected, "{run} {keys}");
        }
        assert_eq!(evictions.more(""), 0);
    }
}
