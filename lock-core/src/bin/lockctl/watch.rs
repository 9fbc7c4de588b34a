//! Runs the warden of a command. The warden is a process that ends the command if `lockctl` cannot, because `lockctl`
//! was killed or stopped.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use crate::exit::Exit;
use crate::target::Target;

/// The line that the warden reads when the command has ended.
pub(crate) const DONE: &str = "done\n";

const LOOK: Duration = Duration::from_millis(20);
/// If a warden wakes up this much later than planned, the warden itself was stopped.
const LATE: Duration = Duration::from_millis(100);
/// The time for which such a warden waits for lines that were written while it was stopped.
const READS: Duration = Duration::from_millis(50);
/// The time for which KILL is repeated, because new processes may start in the meantime.
const KILLS: Duration = Duration::from_secs(1);

/// Waits until the command must end, and then ends it. Reads lines from the input. Each line has the time until which
/// the command may run, in milliseconds [since the start](since_boot) of the machine. At that time, or if the input
/// ends without [`DONE`], writes a line and ends the command: first by TERM, and after `grace` by KILL. If `lockctl` is
/// killed, the kernel kills the command as well, but not its children.
pub(crate) fn watch(target: Target, grace: Duration, until: Duration) -> Exit {
    // The warden has another name, so that `pkill lockctl` does not end it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"warden");
    // The warden has its own session for two reasons. A signal to the command or from its terminal must not end the
    // warden. A busy command must not keep the warden from running, and Linux shares the processors fairly between
    // sessions.
    let _ = rustix::process::setsid();
    let (send, news) = channel();
    thread::spawn(move || {
        // A read error counts as the end of the input.
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|line| drop(send.send(line)));
    });
    if !is_over(&news, until) {
        return Exit::OK;
    }
    let _ = writeln!(std::io::stdout(), "ending");
    let began = Instant::now();
    target.send(&[Signal::TERM, Signal::CONT]);
    wait_while(began, grace, || target.is_alive());
    wait_while(Instant::now(), KILLS, || target.send(&[Signal::KILL]));
    Exit::LOST
}

/// Waits until the time of the command is over, and returns `true`. Each line sets a new time. Returns `false` after
/// [`DONE`].
fn is_over(news: &Receiver<String>, mut until: Duration) -> bool {
    loop {
        let mut read = news.recv_timeout(until.saturating_sub(since_boot()));
        if read == Err(RecvTimeoutError::Timeout) && since_boot() > until + LATE {
            read = news.recv_timeout(READS);
        }
        match read {
            Ok(line) if line == DONE.trim_end() => return false,
            Ok(line) => until = line.parse().map_or(until, Duration::from_millis),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return true,
        }
    }
}

fn wait_while(started: Instant, patience: Duration, is_so: impl Fn() -> bool) {
    while is_so() && started.elapsed() < patience {
        thread::sleep(LOOK);
    }
}

/// Returns the time since the start of the machine. All processes see the same time.
pub(crate) fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_put_the_end_off_and_done_ends_the_watch() {
        let soon = |millis| since_boot() + Duration::from_millis(millis);
        let (send, news) = channel();
        let line = |until: Duration| send.send(until.as_millis().to_string()).expect("it is read");
        assert!(is_over(&news, soon(5)));
        line(soon(3_600_000));
        send.send("done".to_owned()).expect("it is read");
        assert!(!is_over(&news, soon(1_000)));
        // A time in the past ends the watch at once, even if the line is read late.
        line(Duration::ZERO);
        assert!(is_over(&news, soon(3_600_000)));
        drop(send);
        assert!(is_over(&news, soon(3_600_000)));
    }

    #[test]
    fn a_warden_that_was_stopped_reads_what_came_meanwhile() {
        let (send, news) = channel();
        let late = thread::spawn(move || is_over(&news, since_boot().saturating_sub(2 * LATE)));
        thread::sleep(LOOK);
        let _ = send.send("done".to_owned());
        assert!(!late.join().expect("it ends"));
    }
}
