//! Whether the server throws keys away.
//!
//! A policy that can is told of when a connection is made. This is what comes of it, and of a policy that is changed
//! later: the number of keys that were thrown away is looked at now and then, beside the question for the time.

use std::sync::{Mutex, PoisonError};

use ::redis::Pipeline;

use super::connection::Connection;
use super::dial::text;
use super::probe::field;
use super::role::Role;
use super::shared::Shared;

/// How many keys the server had thrown away when one of the connections looked last.
#[derive(Debug, Default)]
pub(crate) struct Evictions(Mutex<Option<Count>>);

#[derive(Debug, PartialEq, Eq)]
struct Count {
    /// Which run of which server: after a restart, and on another server, the count begins anew.
    run: String,
    keys: u64,
}

impl Evictions {
    /// Reads `INFO`; how many more were thrown away since somebody looked.
    fn more(&self, info: &str) -> u64 {
        let keys = field(info, "evicted_keys").and_then(|text| text.parse::<u64>().ok());
        let (Some(run), Some(keys)) = (field(info, "run_id"), keys) else { return 0 };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some(count) if count.run == run => {
                let more = keys.saturating_sub(count.keys);
                count.keys = keys;
                more
            }
            last => {
                *last = Some(Count { run: run.to_owned(), keys });
                0
            }
        }
    }

    /// Asks the server, and tells what it says.
    pub(crate) async fn look<R: Role>(&self, live: &Connection<R>, server: &Shared<R>) {
        let mut questions = Pipeline::with_capacity(2);
        questions.cmd("INFO").arg("server").cmd("INFO").arg("stats");
        if let Ok(answers) = live.send_all(&questions).await
            && let [run, stats] = answers.as_slice()
            && let (Ok(run), Ok(stats)) = (text(run), text(stats))
        {
            self.tell(&format!("{run}\r\n{stats}"), server);
        }
    }

    /// Tells of keys that were thrown away since somebody looked. `info` is an answer to `INFO`.
    pub(crate) fn tell<R: Role>(&self, info: &str, server: &Shared<R>) {
        let keys = self.more(info);
        if keys > 0 {
            tracing::warn!(
                server = %server.address(), keys,
                "redis has thrown keys away because it is short of memory, and locks may be among them; set \
                 maxmemory-policy to noeviction, or give the locks a server of their own"
            );
            server.listeners().keys_evicted(keys);
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
            // What was before is nobody's business.
            ("a", "5", 0),
            ("a", "5", 0),
            ("a", "9", 4),
            ("a", "9", 0),
            // Another server, or the same after a restart.
            ("b", "7", 0),
            ("b", "8", 1),
            ("a", "20", 0),
            ("a", "x", 0),
            ("a", "21", 1),
            // CONFIG RESETSTAT.
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
