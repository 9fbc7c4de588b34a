//! The messages that the server pushes, and the channels on which they arrive.
//!
//! Every process has two channels. On `lock:wake:<process>`, the process receives the messages for its waiters, so that
//! a release wakes exactly the next claim in the queue. On `lock:wake:held:<process>`, the process receives the
//! messages for its holders. Messages are hints and may be lost: the heartbeats of waiters and the renewals of holders
//! also find every change.

use ::redis::{PushInfo, PushKind, Value};

use crate::backend::redis::keyspace::{CHANNEL, HELD_CHANNEL};
use crate::backend::remote::{Listeners, Message};

/// Returns the number of a process as in owner tokens and in the names of channels.
pub(crate) fn digits(process: u128) -> String {
    format!("{process:032x}")
}

/// Returns the channels for the waiters of each process. `beginning` is [`CHANNEL`], or on a Cluster the prefix of a
/// slot.
pub(crate) fn channels(listeners: &Listeners, beginning: &str) -> Vec<String> {
    listeners.processes().into_iter().map(|process| beginning.to_owned() + &digits(process)).collect()
}

/// Returns the channels for the holders of each process.
pub(crate) fn held_channels(listeners: &Listeners) -> Vec<String> {
    channels(listeners, HELD_CHANNEL)
}

/// Delivers a message. Ignores unknown messages, because any client may publish to a channel.
pub(crate) fn deliver(listeners: &Listeners, push: &PushInfo) {
    match push.kind {
        PushKind::Message | PushKind::SMessage => {}
        // This client never unsubscribes, so the slot was moved away from the node together with its channels.
        PushKind::SUnsubscribe => return listeners.unsubscribed(),
        _ => return,
    }
    let Some((process, message)) = parse(&push.data) else {
        tracing::debug!("an unknown message on a wake channel was ignored");
        return;
    };
    message.deliver(listeners, process);
}

/// Parses a message of the form `[channel, text]`.
fn parse(data: &[Value]) -> Option<(u128, Message<'_>)> {
    let [Value::BulkString(channel), Value::BulkString(text)] = data else { return None };
    let channel = std::str::from_utf8(channel).ok()?;
    // The prefix of the holders' channels is tried first, because it begins with the prefix of the waiters' channels.
    let process = channel.strip_prefix(HELD_CHANNEL).or_else(|| channel.strip_prefix(CHANNEL))?;
    // On a Cluster, the hash tag of a slot precedes the process.
    let process = process.rsplit('}').next()?;
    let process = u128::from_str_radix(process, 16).ok()?;
    Some((process, Message::parse(process, std::str::from_utf8(text).ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn messages_are_parsed() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let (process, digits, token) = (owner.process(), digits(owner.process()), owner.token());
        let channel = bulk(&format!("{CHANNEL}{digits}"));
        assert!(token.as_str().starts_with(&digits));
        let table = [
            (format!("granted {} 3", token.as_str()), Message::Granted(owner, 3)),
            ("contended order: 42".to_owned(), Message::Contended("order: 42")),
            ("opened start".to_owned(), Message::Opened("start")),
            (format!("forced {}", token.as_str()), Message::Forced(owner)),
        ];
        let held = [bulk(&format!("{HELD_CHANNEL}{digits}")), bulk(&format!("forced {}", token.as_str()))];
        assert_eq!(parse(&held), Some((process, Message::Forced(owner))));
        let sharded = [bulk(&format!("{CHANNEL}{{42}}{digits}")), bulk("opened start")];
        assert_eq!(parse(&sharded), Some((process, Message::Opened("start"))));
        for (text, expected) in table {
            let data = [channel.clone(), bulk(&text)];
            assert_eq!(parse(&data), Some((process, expected)), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_ignored() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let token = owner.token();
        let channel = format!("{CHANNEL}{}", digits(owner.process()));
        let granted = format!("granted {} 0", token.as_str());
        let others = format!("{CHANNEL}{}", digits(7));
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
            assert_eq!(parse(&[bulk(channel), bulk(text)]), None, "{channel} {text}");
        }
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[Value::Nil, Value::Int(1)]), None);
        assert_eq!(parse(&[Value::BulkString(vec![0xff]), Value::BulkString(vec![0xff])]), None);
    }
}
