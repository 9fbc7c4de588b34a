//! Writes an event as one line.

use std::fmt;

use super::event::{LockEvent, LockName};

/// Writes the keys, and the label if there is one, such as `order:42 (pay)`.
impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key may come from a client. It is escaped, so that it cannot break a line.
        write!(f, "{}", self.key.as_str().escape_debug())?;
        self.more.iter().try_for_each(|key| write!(f, ", {}", key.as_str().escape_debug()))?;
        match &self.label {
            Some(label) => write!(f, " ({})", label.escape_debug()),
            None => Ok(()),
        }
    }
}

/// Writes one line, such as `order:42 (pay) was granted after 1.2ms`.
impl fmt::Display for LockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { lock, waited, .. } => write!(f, "{lock} was granted after {waited:.1?}"),
            Self::Refused { lock, why, waited, holder, .. } => {
                write!(f, "{lock} was refused after {waited:.1?}: {why}")?;
                holder.iter().try_for_each(|holder| write!(f, "; held by {holder}"))
            }
            Self::Cancelled { lock, waited } => {
                write!(f, "the request for {lock} was dropped after {waited:.1?}")
            }
            Self::Released { lock, held, .. } => write!(f, "{lock} was released after {held:.1?}"),
            Self::Endangered { lock, left } => {
                write!(f, "a renewal of {lock} was not answered, {left:.1?} are left")
            }
            Self::Lost { lock, reason, held, .. } => write!(f, "{lock} was lost after {held:.1?}: {reason}"),
            Self::HeldLong { lock, held } => write!(f, "{lock} is held for {held:.1?} already"),
            Self::ReleaseFailed { lock } => write!(f, "a release of {lock} failed"),
            Self::StoreFailed { lock, error } => {
                write!(f, "a request for {lock} failed and waits on: {error}")
            }
            Self::Bypassed { template } => write!(f, "work under {template} ran without its lock"),
            Self::StoreEvicted { keys } => {
                write!(f, "the store has evicted {keys} keys, locks may be among them")
            }
            Self::Missed(count) => write!(f, "{count} events were missed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::error::{LockErrorKind, LossReason};
    use crate::key::Key;
    use crate::kind::Kind;

    fn named() -> LockName {
        let key = |text: &str| Key::new(text).expect("a key");
        let (more, label) = (Arc::from([key("b")]), Some("pay".into()));
        LockName { key: key("a\n"), more, template: None, label, kind: Kind::Semaphore { permits: 3 } }
    }

    #[test]
    fn an_event_is_one_line() {
        let (lock, ms) = (named, Duration::from_millis);
        let table = [
            (
                LockEvent::Granted { lock: lock(), waited: ms(1), fencing_token: None },
                "a\\n, b (pay) was granted after 1.0ms",
            ),
            (
                LockEvent::Refused {
                    lock: lock(),
                    why: LockErrorKind::TimedOut,
                    skipped: false,
                    waited: ms(1),
                    holder: None,
                },
                "a\\n, b (pay) was refused after 1.0ms: lock was not free in time",
            ),
            (
                LockEvent::Lost {
                    lock: lock(),
                    reason: LossReason::MaxHold,
                    held: ms(1),
                    fencing_token: None,
                },
                "a\\n, b (pay) was lost after 1.0ms: it was held for `max_hold`",
            ),
            (LockEvent::Missed(7), "7 events were missed"),
        ];
        for (event, expected) in table {
            assert_eq!(event.to_string(), expected);
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn an_event_is_serialized_with_its_name() {
        let json = |event: &LockEvent| serde_json::to_value(event).expect("it is plain data");
        let lost = LockEvent::Lost {
            lock: named(),
            reason: LossReason::MaxHold,
            held: Duration::from_millis(1_500),
            fencing_token: Some(crate::FencingToken::new(7)),
        };
        let expected = serde_json::json!({
            "event": "lost",
            "lock": {
                "key": "a\n", "more": ["b"], "template": null, "label": "pay", "kind": { "semaphore": { "permits": 3 } },
            },
            "reason": "max_hold",
            "held_ms": 1_500,
            "fencing_token": 7,
        });
        assert_eq!(json(&lost), expected);
        assert_eq!(json(&LockEvent::Missed(7)), serde_json::json!({ "event": "missed", "count": 7 }));
        let bypassed = LockEvent::Bypassed { template: "order:<id>".into() };
        assert_eq!(json(&bypassed), serde_json::json!({ "event": "bypassed", "template": "order:<id>" }));
    }
}
