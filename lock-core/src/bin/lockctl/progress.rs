//! Shows the wait for a lock. On a terminal, this is one line that changes. Elsewhere, this is a line at the start and
//! a line every ten seconds.

use std::convert::Infallible;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use lock_core::{LockInfo, LockManager};
use tokio::time::{Instant, sleep};

use crate::out;
use crate::table;

/// The shortest wait that is shown.
const QUIET: Duration = Duration::from_millis(300);
/// The pause between two reads of the holder: this one on a terminal, and [`LINE`] elsewhere.
const LOOK: Duration = Duration::from_secs(1);
const LINE: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(100);
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

#[derive(Debug)]
pub(crate) struct Progress<'a> {
    locks: &'a LockManager,
    key: &'a str,
    json: bool,
    started: Instant,
    /// Whether a line is on the terminal. This line is erased at the end.
    shown: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(locks: &'a LockManager, key: &'a str, json: bool) -> Self {
        Self { locks, key, json, started: Instant::now(), shown: false }
    }

    /// Shows the wait until the future is dropped.
    pub(crate) async fn show(mut self) -> Infallible {
        sleep(QUIET).await;
        if self.json || !std::io::stderr().is_terminal() {
            loop {
                self.line(self.look().await.as_ref());
                sleep(LINE).await;
            }
        }
        loop {
            let found = self.look().await;
            let until = Instant::now() + LOOK;
            while Instant::now() < until {
                self.turn(found.as_ref());
                sleep(TURN).await;
            }
        }
    }

    /// Returns the lock on the key. If the store fails, returns `None`, because the wait itself reports the failure.
    async fn look(&self) -> Option<LockInfo> {
        self.locks.inspect(self.key).await.ok().flatten()
    }

    fn line(&self, found: Option<&LockInfo>) {
        let waited = self.started.elapsed();
        if self.json {
            let lock = found.map(table::json);
            let event = serde_json::json!({ "event": "waiting", "key": self.key, "waited_ms": table::millis(waited), "lock": lock });
            eprintln!("{event}");
        } else {
            eprintln!("lockctl: {}", text(self.key, waited, found));
        }
    }

    fn turn(&mut self, found: Option<&LockInfo>) {
        let waited = self.started.elapsed();
        let spinner = SPINNER[(waited.as_millis() / TURN.as_millis()) as usize % SPINNER.len()];
        let (width, _) = out::size(std::io::stderr());
        let line = format!("{spinner} {}", text(self.key, waited, found));
        let line: String = line.chars().take(width.saturating_sub(1)).collect();
        let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
        self.shown = true;
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

/// Returns a line such as ``waiting for `k` 12s, held by host pid 7 (shop) for 41s, 7s of its lease left, 2 waiting``.
fn text(key: &str, waited: Duration, found: Option<&LockInfo>) -> String {
    let mut text = format!("waiting for `{}` {}", key.escape_debug(), table::short(waited));
    let Some(lock) = found else { return text };
    if let Some(holder) = lock.holders.first() {
        text += &format!(", held by {}", table::holder(holder));
        if let Some(age) = table::age(holder).filter(|_| holder.held_since.is_some()) {
            text += &format!(" for {}", table::short(age));
        }
        if let Some(left) = holder.remaining {
            text += &format!(", {} of its lease left", table::short(left));
        }
    }
    if lock.holders.len() > 1 {
        text += &format!(" and {} others", lock.holding - 1);
    }
    let own = lock.waiters.iter().position(|waiter| waiter.record.as_ref().is_some_and(table::is_own));
    match own {
        Some(at) => text += &format!(", position {} of {}", at + 1, lock.waiting),
        None if lock.waiting > 0 => text += &format!(", {} waiting", lock.waiting),
        None => {}
    }
    text
}
