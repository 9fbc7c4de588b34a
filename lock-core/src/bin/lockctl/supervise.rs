//! Runs a command under a lock, and ends it before the lease of the lock is over.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use lock_core::{LockError, LockGuard, LossReason, Released};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::args::{End, OnLost};
use crate::child::{Child, code};
use crate::exit::{Exit, Fault};
use crate::lease::{Limits, Verdict};
use crate::signals::Signals;

/// The time for which a command may work after the loss of its lock with `--on-lost warn`.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// The pause before the next renewal, if the store did not answer the previous renewal.
const AGAIN: Duration = Duration::from_millis(100);

/// The way in which a command under a lock has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The command ended by itself, or another process ended it by a signal.
    Done(Exit),
    /// The command was stopped, because the lock was about to be lost.
    Stopped,
    /// `lockctl` failed to start or to supervise the command.
    Failed(Fault),
}

impl Ended {
    /// Returns the exit code. `loss` is the reason why the lock, which is named `what`, was lost, if that is known.
    /// `release` is the answer to its release. A failed release is printed, but does not change the code, because the
    /// key is free when its lease is over.
    ///
    /// A command may end before the loss of its lock is noticed, for example after a deletion of the key. Such a loss is
    /// printed. It changes the code only of a command that succeeded, and not with `--on-lost warn`.
    pub(crate) fn exit(
        self,
        what: &str,
        on_lost: OnLost,
        loss: Option<LockError>,
        release: lock_core::Result<Released>,
    ) -> Result<Exit, Fault> {
        let lost = loss.map(|error| error.to_string()).or_else(|| found_lost(&release));
        match self {
            Self::Stopped => {
                let failed = release.err().map(|error| error.to_string());
                let why = lost.or(failed).unwrap_or_else(|| "its lease was nearly over".to_owned());
                Err(Fault::new(Exit::LOST, format!("{what} was lost and the command was stopped: {why}")))
            }
            Self::Done(exit) => {
                let text = match (lost, release) {
                    (Some(why), _) => {
                        let text = format!(
                            "{what} was lost before the command ended, and another one may have run at the same time: {why}"
                        );
                        if exit == Exit::OK && on_lost == OnLost::Kill {
                            return Err(Fault::new(Exit::LOST, text));
                        }
                        text
                    }
                    (None, Err(error)) => error.to_string(),
                    (None, Ok(_)) => return Ok(exit),
                };
                eprintln!("lockctl: {text}");
                Ok(exit)
            }
            Self::Failed(fault) => Err(fault),
        }
    }
}

/// Returns why the lock was lost, if the answer to its release shows that it was.
pub(crate) fn found_lost(release: &lock_core::Result<Released>) -> Option<String> {
    match release {
        Ok(Released::Expired | Released::Taken) => Some(LossReason::Taken.to_string()),
        Err(error) if error.is_lost() => Some(error.to_string()),
        _ => None,
    }
}

/// Runs the command, forwards signals to it, and ends it before the lease of its lock is over.
pub(crate) async fn under(
    guard: &LockGuard,
    ttl: Duration,
    end: &End,
    command: &[OsString],
    more: &[(&str, String)],
    signals: &mut Signals,
) -> Ended {
    let mut variables = vec![("LOCK_KEY", guard.key().to_owned())];
    variables.extend(more.iter().cloned());
    // A store without fencing tokens answers with an error. The command then gets no token.
    if let Ok(token) = guard.fencing_token().await {
        variables.push(("LOCK_FENCING_TOKEN", token.to_string()));
    }
    let lease = match whole_lease(guard, ttl).await {
        Ok(lease) => lease,
        Err(fault) => return Ended::Failed(fault),
    };
    let limits = Limits::new(lease, end.grace);
    let work = Work { guard, limits, on_lost: end.on_lost };
    let mut child = match Child::start(command, &variables, limits.grace, work.allowed()) {
        Ok(child) => child,
        Err(fault) => return Ended::Failed(fault),
    };
    let ended = work.supervise(&mut child, signals).await;
    child.dismiss().await;
    ended
}

/// Returns the rest of the lease. If this is less than half of the ttl, renews the lease first, and retries until the
/// store has answered. The reason is that a grant from a queue has the short lease of a waiter until its first renewal.
/// A store with sessions renews by itself, and its leases are as long as its session.
///
/// Returns an error if the lock was lost before the answer.
pub(crate) async fn whole_lease(guard: &LockGuard, ttl: Duration) -> Result<Duration, Fault> {
    while guard.remaining() < ttl / 2 {
        let renewed = guard.extend(ttl).await;
        guard.check()?;
        // Any other error is permanent: the command then works with the rest of the lease.
        if !renewed.is_err_and(|error| error.is_temporary()) {
            break;
        }
        sleep(AGAIN).await;
    }
    guard.check()?;
    Ok(guard.remaining().min(ttl))
}

/// Returns whether the lock was lost because its lease or its session ended, or because the store no longer has this
/// grant. If no command has started, such a lock can be requested again. A lock that an operator has released by force
/// is not requested again.
pub(crate) fn is_over(guard: &LockGuard) -> bool {
    let loss = guard.check().err().and_then(|error| error.loss_reason());
    matches!(loss, Some(LossReason::Expired | LossReason::Taken | LossReason::SessionEnded))
}

/// The lock of the command, and its limits.
struct Work<'a> {
    guard: &'a LockGuard,
    limits: Limits,
    on_lost: OnLost,
}

impl Work<'_> {
    /// Returns the time for which the command may run before the next message to the warden.
    fn allowed(&self) -> Duration {
        match self.on_lost {
            OnLost::Warn => FOR_EVER,
            OnLost::Kill => self.limits.may_work(self.guard.remaining()),
        }
    }

    fn verdict(&self) -> Verdict {
        self.limits.verdict(self.guard.remaining())
    }

    async fn supervise(&self, child: &mut Child, signals: &mut Signals) -> Ended {
        let mut stopping: Option<Instant> = None;
        let mut warned = false;
        loop {
            if let Err(fault) = child.may_work(self.allowed()).await {
                child.end_rest(|| false, self.limits.kill).await;
                return Ended::Failed(fault);
            }
            match (self.on_lost, self.verdict(), stopping) {
                (_, Verdict::Work, _) => {}
                (OnLost::Warn, ..) => {
                    if !std::mem::replace(&mut warned, true) {
                        let key = self.guard.key().escape_debug();
                        eprintln!("lockctl: the lock `{key}` is not renewed, and the command works on");
                    }
                }
                (OnLost::Kill, Verdict::Stop, None) => {
                    child.stop();
                    stopping = Some(Instant::now());
                }
                (OnLost::Kill, Verdict::Stop, Some(since)) if since.elapsed() < self.limits.grace => {}
                (OnLost::Kill, ..) => {
                    child.kill();
                    stopping.get_or_insert_with(Instant::now);
                }
            }
            let pause = self.limits.look_after(self.guard.remaining());
            tokio::select! {
                biased;
                status = child.ended() => return self.conclude(child, status, stopping).await,
                number = signals.next() => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        child.forward(signal);
                    }
                }
                () = sleep(pause) => {}
            }
        }
    }

    /// Returns the way in which the command has ended. `stopping` is the time when `lockctl` stopped the command. If
    /// the command was stopped, ends its children too.
    async fn conclude(
        &self,
        child: &mut Child,
        status: std::io::Result<ExitStatus>,
        stopping: Option<Instant>,
    ) -> Ended {
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                // The remaining processes must not work without the lock.
                child.end_rest(|| false, self.limits.kill).await;
                let text = format!("the command was lost: {error}");
                return Ended::Failed(Fault::new(Exit::NOT_EXECUTABLE, text));
            }
        };
        // The exit code alone does not show whether the command was stopped. The warden may have stopped it, and a
        // command can exit with 0 after TERM.
        let is_over = stopping.is_some() || self.allowed().is_zero();
        if !is_over && !child.dismiss().await {
            return Ended::Done(code(status));
        }
        let since = stopping.unwrap_or_else(|| {
            child.stop();
            Instant::now()
        });
        let may_wait = || self.verdict() != Verdict::Kill && since.elapsed() < self.limits.grace;
        child.end_rest(may_wait, self.limits.kill).await;
        Ended::Stopped
    }
}
