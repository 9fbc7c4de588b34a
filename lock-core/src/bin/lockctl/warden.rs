//! The warden of a command: a process that ends the command if `lockctl` cannot, because it was killed or stopped.

use std::io::BufRead;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::exit::{Exit, Fault};
use crate::target::Target;

/// What the warden reads when there is nothing left to end.
pub(crate) const DONE: &str = "done\n";

const LOOK: Duration = Duration::from_millis(10);
/// Until the first news, which come at once.
const BEGIN: Duration = Duration::from_secs(10);

/// Reads lines: for how many milliseconds the command may work on. If the next line does not come in that time, or the input
/// ends without [`DONE`], ends the command: by TERM, and after `grace` by KILL. A command whose `lockctl` is killed is
/// killed by the kernel besides; its children are not.
pub(crate) fn watch(process: i32, group: bool, mark: u64, grace: Duration) -> Result<Exit, Fault> {
    // What looks for `lockctl` by its name, as `pkill` does, must not find its warden.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"warden");
    let Some(process) = Pid::from_raw(process) else { return Err(Fault::usage("a process id is positive")) };
    let (send, news) = channel();
    thread::spawn(move || {
        // An error is an end as well.
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|line| drop(send.send(line)));
    });
    let mut long = BEGIN;
    loop {
        match news.recv_timeout(long) {
            Ok(line) if line == DONE.trim_end() => return Ok(Exit::OK),
            Ok(line) => long = line.parse().map_or(long, Duration::from_millis),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let target = Target { process, group, mark };
    target.send(Signal::TERM);
    target.send(Signal::CONT);
    let deadline = Instant::now() + grace;
    while target.is_alive() && Instant::now() < deadline {
        thread::sleep(LOOK);
    }
    target.send(Signal::KILL);
    Ok(Exit::LOST)
}
