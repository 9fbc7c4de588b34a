//! Shows the locks that are held, and updates this list repeatedly.

use std::io::IsTerminal;
use std::time::Duration;

use lock_core::{Listed, LockManager};
use rustix::process::{Signal, getpid, kill_process};
use tokio::time::sleep;

use crate::args::Store;
use crate::exit::{Exit, Fault};
use crate::out;
use crate::signals::Signals;
use crate::table;

/// Shows the locks repeatedly. On a terminal, the output replaces the previous output.
pub(crate) async fn top(store: &Store, every: Duration, json: bool) -> Result<Exit, Fault> {
    let mut signals = Signals::ending()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let screen = (!json && std::io::stdout().is_terminal()).then(Screen::open);
    let mut stops = if screen.is_some() { Signals::stopping()? } else { Signals::none() };
    let show = async {
        loop {
            match (locks.locks().await, &screen) {
                (Ok(listed), _) if json => out::line(value(&listed)),
                (Ok(listed), Some(_)) => Screen::show(&picture(&locks, listed)),
                (Ok(listed), None) => out::line(picture(&locks, listed)),
                (Err(error), Some(_)) if error.is_temporary() => Screen::show(&error.to_string()),
                (Err(error), _) => return Fault::from(error),
            }
            sleep(every).await;
        }
    };
    tokio::pin!(show);
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(Exit::OK),
            _ = stops.next() => Screen::stop(),
            fault = &mut show => return Err(fault),
        }
    }
}

fn value(listed: &Listed) -> serde_json::Value {
    let locks: Vec<_> = listed.locks.iter().map(table::json).collect();
    serde_json::json!({ "locks": locks, "truncated": listed.truncated })
}

/// Returns the locks as text. The locks with the most waiters come first.
fn picture(locks: &LockManager, mut listed: Listed) -> String {
    listed.locks.sort_by(|a, b| b.waiting.cmp(&a.waiting).then_with(|| a.key.cmp(&b.key)));
    let waiting: usize = listed.locks.iter().map(|lock| lock.waiting).sum();
    let more = if listed.truncated { " or more" } else { "" };
    let head = format!("{}{more} held, {waiting} waiting, on {}", listed.locks.len(), locks.store());
    format!("{head}\n\n{}", table::table(&listed.locks))
}

/// The alternate screen of the terminal, without a cursor.
struct Screen;

impl Screen {
    fn open() -> Self {
        Self::enter();
        Self
    }

    fn enter() {
        out::print("\x1b[?1049h\x1b[?25l");
    }

    fn leave() {
        out::print("\x1b[?25h\x1b[?1049l");
    }

    /// Shows the part of a picture that the terminal has room for.
    fn show(picture: &str) {
        let (columns, rows) = out::size(std::io::stdout());
        let lines = picture.lines().take(rows.saturating_sub(1).max(1));
        let lines: Vec<String> = lines.map(|line| line.chars().take(columns).collect()).collect();
        out::print(format_args!("\x1b[H\x1b[2J{}", lines.join("\r\n")));
    }

    /// Stops this process after Ctrl-Z. While the process is stopped, the shell has the normal screen.
    fn stop() {
        Self::leave();
        let _ = kill_process(getpid(), Signal::STOP);
        Self::enter();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        Self::leave();
    }
}
