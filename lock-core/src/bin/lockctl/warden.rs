//! The warden of a command: a process that ends the command if `lockctl run` is killed, which then cannot do it itself.

use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::child::Target;
use crate::exit::{Exit, Fault};

const LOOK: Duration = Duration::from_millis(10);

/// Waits for the end of the input. If nothing came before it, `lockctl run` was killed: ends the command, by TERM, and
/// after `grace` by KILL.
pub(crate) fn watch(process: i32, group: bool, grace: Duration) -> Result<Exit, Fault> {
    let mut said = Vec::new();
    // An error is an end as well.
    let _ = std::io::stdin().read_to_end(&mut said);
    if !said.is_empty() {
        return Ok(Exit::OK);
    }
    let Some(process) = Pid::from_raw(process) else { return Err(Fault::usage("a process id is positive")) };
    let target = Target { process, group };
    target.send(Signal::TERM);
    let deadline = Instant::now() + grace;
    while target.is_alive() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    target.send(Signal::KILL);
    Ok(Exit::LOST)
}
