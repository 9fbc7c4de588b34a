//! Receives the signals that end `lockctl`, or that `lockctl` forwards to a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Fault};

/// Signals that end a process by default.
const ENDING: [SignalKind; 4] =
    [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
/// Further signals that are forwarded, because a command may handle them.
const FORWARDED: [SignalKind; 2] = [SignalKind::user_defined1(), SignalKind::user_defined2()];

/// A receiver of signals, which replaces the default action of these signals.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(i32, Signal)>);

impl Signals {
    /// Receives the signals that end a process.
    pub(crate) fn ending() -> Result<Self, Fault> {
        Self::receive(&ENDING)
    }

    /// Receives all signals that are forwarded to a command.
    pub(crate) fn forwarded() -> Result<Self, Fault> {
        Self::receive(&[&ENDING[..], &FORWARDED[..]].concat())
    }

    /// Receives the signal that Ctrl-Z sends.
    pub(crate) fn stopping() -> Result<Self, Fault> {
        Self::receive(&[SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw())])
    }

    /// Receives no signals.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    fn receive(kinds: &[SignalKind]) -> Result<Self, Fault> {
        let ignored = ignored();
        let kinds = kinds.iter().filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        let receive = |kind: &SignalKind| Ok((kind.as_raw_value(), signal(*kind)?));
        let signals = kinds.map(receive).collect::<std::io::Result<_>>();
        signals.map(Self).map_err(|error| Fault::new(Exit::STORE, format!("cannot receive signals: {error}")))
    }

    /// Returns the result of `call`, or an error if a signal arrives first.
    pub(crate) async fn unless_ended<T>(
        &mut self,
        call: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        tokio::select! {
            biased;
            done = call => done,
            number = self.next() => Err(Fault::new(Exit::of_signal(number), format!("ended by signal {number}"))),
        }
    }

    /// Returns the number of the next signal.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if let std::task::Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Returns the signals that this process has ignored since its start, as under `nohup`. Each signal is one bit. These
/// signals stay ignored.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
