//! What the server tells by itself, and who listens.
//!
//! Every process has a channel of its own, `lock:wake:<process>`, so that a release wakes exactly the next in the
//! queue, and another, `lock:wake:held:<process>`, for what concerns its holders. The messages are hints: whoever waits also
//! asks now and then, and whoever holds renews.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ::redis::{PushInfo, PushKind, Value};

use crate::backend::Listener;
use crate::owner::Owner;

/// What the name of every channel begins with. On a Cluster the hash tag of a slot comes next.
pub(super) const CHANNEL: &str = "lock:wake:";

/// What comes next in the names of the channels on which holders are told. All nodes of a Cluster hear them, because nobody
/// knows on which of them a holder listens.
const HELD: &str = "held:";

/// The random part of owner tokens as it is written in them and in the name of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process(pub(super) u128);

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Everybody who listens, shared by all connections of a backend.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// A `std` lock: it is never held across an await, nor while somebody is told.
    listeners: Mutex<Vec<(Process, Weak<dyn Listener>)>>,
    /// Grows with every new one, so that a connection knows whether it has subscribed for all.
    version: AtomicU64,
}

impl Listeners {
    pub(super) fn add(&self, process: u128, listener: Weak<dyn Listener>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|(_, listener)| listener.strong_count() > 0);
        listeners.push((Process(process), listener));
        // Under the lock: whoever reads the version first and the channels then has at least these.
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// All who listen.
    pub(super) fn processes(&self) -> Vec<Process> {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut processes: Vec<Process> = listeners.iter().map(|(process, _)| *process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }

    /// Their channels.
    pub(super) fn channels(&self) -> Vec<String> {
        self.processes().iter().map(|process| format!("{CHANNEL}{process}")).collect()
    }

    /// The channels on which their holders are told.
    pub(super) fn held_channels(&self) -> Vec<String> {
        self.processes().iter().map(|process| format!("{CHANNEL}{HELD}{process}")).collect()
    }

    /// Tells everybody that messages may have been lost.
    pub(super) fn reconnected(&self) {
        for listener in self.of(None) {
            listener.reconnected();
        }
    }

    /// Tells everybody that the server has thrown so many keys away.
    pub(super) fn keys_evicted(&self, keys: u64) {
        for listener in self.of(None) {
            listener.keys_evicted(keys);
        }
    }

    /// Hands on what the server told; ignores what it does not know, because anybody may send to a channel.
    pub(super) fn hear(&self, push: &PushInfo) {
        match push.kind {
            PushKind::Message | PushKind::SMessage => {}
            // Nobody here asks for that: the slot has left the node, and the channel with it.
            PushKind::SUnsubscribe => {
                self.version.fetch_add(1, Ordering::Release);
                return self.reconnected();
            }
            _ => return,
        }
        match heard(&push.data) {
            Some((process, Message::Granted(owner, waiters))) => {
                self.of(Some(process)).iter().for_each(|listener| listener.granted(owner, waiters));
            }
            Some((process, Message::Contended(key))) => {
                self.of(Some(process)).iter().for_each(|listener| listener.contended(key));
            }
            Some((process, Message::Forced(owner))) => {
                self.of(Some(process)).iter().for_each(|listener| listener.forced(owner));
            }
            Some((process, Message::Opened(key))) => {
                self.of(Some(process)).iter().for_each(|listener| listener.opened(key));
            }
            None => tracing::debug!("an unknown message on a wake channel was ignored"),
        }
    }

    fn of(&self, process: Option<Process>) -> Vec<Arc<dyn Listener>> {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = listeners.iter().filter(|(of, _)| process.is_none_or(|process| process == *of));
        wanted.filter_map(|(_, listener)| listener.upgrade()).collect()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Message<'a> {
    Granted(Owner, usize),
    Contended(&'a str),
    Opened(&'a str),
    Forced(Owner),
}

/// Reads a message, `[channel, text]`: `granted <token> <waiters>`, `contended <key>`, `opened <key>` or
/// `forced <token>`.
fn heard(data: &[Value]) -> Option<(Process, Message<'_>)> {
    let [Value::BulkString(channel), Value::BulkString(text)] = data else { return None };
    let process = std::str::from_utf8(channel).ok()?.strip_prefix(CHANNEL)?;
    let process = process.strip_prefix(HELD).unwrap_or(process);
    let process = process.rsplit('}').next()?;
    let process = Process(u128::from_str_radix(process, 16).ok()?);
    let (what, about) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let message = match what {
        "granted" => {
            let (token, waiters) = about.split_once(' ')?;
            let owner = Owner::from_token(token).filter(|owner| owner.process() == process.0)?;
            Message::Granted(owner, waiters.parse().ok()?)
        }
        "contended" => Message::Contended(about),
        "opened" => Message::Opened(about),
        "forced" => Message::Forced(Owner::from_token(about).filter(|owner| owner.process() == process.0)?),
        _ => return None,
    };
    Some((process, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn messages_are_read() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let (process, token) = (Process(owner.process()), owner.token());
        let channel = bulk(&format!("{CHANNEL}{process}"));
        assert!(token.as_str().starts_with(&process.to_string()));
        let table = [
            (format!("granted {} 3", token.as_str()), Message::Granted(owner, 3)),
            ("contended order: 42".to_owned(), Message::Contended("order: 42")),
            ("opened start".to_owned(), Message::Opened("start")),
            (format!("forced {}", token.as_str()), Message::Forced(owner)),
        ];
        let held = [bulk(&format!("{CHANNEL}{HELD}{process}")), bulk(&format!("forced {}", token.as_str()))];
        assert_eq!(heard(&held), Some((process, Message::Forced(owner))));
        let sharded = [bulk(&format!("{CHANNEL}{{42}}{process}")), bulk("opened start")];
        assert_eq!(heard(&sharded), Some((process, Message::Opened("start"))));
        for (text, expected) in table {
            let data = [channel.clone(), bulk(&text)];
            assert_eq!(heard(&data), Some((process, expected)), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_ignored() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let token = owner.token();
        let channel = format!("{CHANNEL}{}", Process(owner.process()));
        let granted = format!("granted {} 0", token.as_str());
        let others = format!("{CHANNEL}{}", Process(7));
        for (channel, text) in [
            (channel.as_str(), "granted x 0"),
            (&channel, "granted"),
            (&channel, ""),
            (&channel, "hello world"),
            (&channel, &format!("granted {} many", token.as_str())),
            ("other", &granted),
            (&others, &granted),
            (CHANNEL, &granted),
        ] {
            assert_eq!(heard(&[bulk(channel), bulk(text)]), None, "{channel} {text}");
        }
        assert_eq!(heard(&[]), None);
        assert_eq!(heard(&[Value::Nil, Value::Int(1)]), None);
        assert_eq!(heard(&[Value::BulkString(vec![0xff]), Value::BulkString(vec![0xff])]), None);
    }
}
