//! Defines [`OwnerRecord`], which describes the holder of a lock to human readers.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::field::{Field, unescape};
use super::identity::Identity;
use super::owner::{Owner, OwnerToken};
#[cfg(any(test, feature = "testkit"))]
use crate::clock;
use crate::clock::Date;

/// A readable description of the holder of a lock, with the time of its request. Errors, logs and the store's own shell
/// show this record.
///
/// If a grant is handed off inside a process, its record does not change. So the label and the time are those of the
/// first holder.
///
/// In the store, the record follows the owner's token:
/// `<token> host=web-3 pid=811 service=shop label=pay since=1763672000123`.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OwnerRecord {
    #[cfg_attr(feature = "serde", serde(flatten, serialize_with = "identity"))]
    identity: Arc<Identity>,
    label: Option<Cow<'static, str>>,
    #[cfg_attr(feature = "serde", serde(rename = "since_ms", serialize_with = "crate::serialize::millis"))]
    since: Duration,
}

#[cfg(feature = "serde")]
fn identity<S: serde::Serializer>(identity: &Identity, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(identity, serializer)
}

impl fmt::Debug for OwnerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OwnerRecord");
        shown.field("identity", &*self.identity).field("label", &self.label);
        shown.field("since", &format_args!("{}", Date(self.since))).finish()
    }
}

impl OwnerRecord {
    /// Creates the record of a request that begins now.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn new(identity: Arc<Identity>, label: Option<Cow<'static, str>>) -> Self {
        Self::since(clock::wall(), identity, label)
    }

    /// Creates the record of a request that began at `since`, by the wall clock.
    pub(crate) fn since(since: Duration, identity: Arc<Identity>, label: Option<Cow<'static, str>>) -> Self {
        // The time is truncated to whole milliseconds, which is the precision in the store.
        let since = since.saturating_sub(Duration::from_nanos(u64::from(since.subsec_nanos() % 1_000_000)));
        Self { identity, label, since }
    }

    /// Returns the process that requested the lock.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the label of the request, which describes the purpose of the lock.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns the time at which the holder requested the lock, by the holder's wall clock. The value is the time since
    /// the Unix epoch, with a precision of milliseconds.
    #[must_use]
    pub fn since_epoch(&self) -> Duration {
        self.since
    }

    /// Returns the value that the store keeps for a lock: the token, a space, and this record.
    #[must_use]
    pub fn to_value(&self, token: &OwnerToken) -> String {
        let mut value = String::with_capacity(Owner::TOKEN_LEN + self.identity.encoded().len() + 64);
        value.push_str(token.as_str());
        value.push(' ');
        self.write_to(&mut value);
        value
    }

    /// Returns the record as the stores keep it, without the token of the owner.
    #[cfg(any(feature = "postgres", feature = "zookeeper"))]
    pub(crate) fn to_record(&self) -> String {
        let mut record = String::new();
        self.write_to(&mut record);
        record
    }

    fn write_to(&self, text: &mut String) {
        use fmt::Write;
        text.push_str(self.identity.encoded());
        if let Some(label) = &self.label {
            let _ = write!(text, " label={}", Field(label));
        }
        let since = u64::try_from(self.since.as_millis()).unwrap_or(u64::MAX);
        let _ = write!(text, " since={since}");
    }

    /// Adds the time of the grant, by the wall clock, to a stored value.
    #[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn add_granted(value: &mut String, granted: Duration) {
        use fmt::Write;
        let _ = write!(value, " granted={}", granted.as_millis());
    }

    /// Returns the time of the grant, if the stored value contains it.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn granted(value: &str) -> Option<Duration> {
        let granted = value.rsplit(' ').find_map(|part| part.strip_prefix("granted="))?;
        granted.parse().ok().map(Duration::from_millis)
    }

    /// Parses a stored value. Returns `None` if the value was not written by this library.
    #[must_use]
    pub fn from_value(value: &str) -> Option<Self> {
        let (token, record) = value.split_at_checked(Owner::TOKEN_LEN)?;
        if !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        Self::from_record(record.strip_prefix(' ')?)
    }

    /// Parses a [record](Self::to_record) without a token.
    pub(crate) fn from_record(record: &str) -> Option<Self> {
        // If a name occurs twice, its first value is used. Unknown names are ignored.
        let field = |name| record.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let identity =
            Identity::new(unescape(field("host")?), field("pid")?.parse().ok()?, unescape(field("service")?));
        Some(Self {
            identity: Arc::new(identity),
            label: field("label").map(|label| Cow::Owned(unescape(label))),
            since: Duration::from_millis(field("since")?.parse().ok()?),
        })
    }
}

impl fmt::Display for OwnerRecord {
    /// Writes a text such as `web-3 pid 811 (shop, pay)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every client with access to the store can write this text. The text is escaped, so that it cannot break a
        // line of the log.
        write!(f, "{} pid {}", self.identity.host.escape_debug(), self.identity.pid)?;
        let (service, label) = (self.identity.service.escape_debug(), self.label().map(str::escape_debug));
        match (self.identity.service.as_str(), label) {
            ("", None) => Ok(()),
            ("", Some(label)) => write!(f, " ({label})"),
            (_, None) => write!(f, " ({service})"),
            (_, Some(label)) => write!(f, " ({service}, {label})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    fn record(service: &str, label: Option<&str>) -> OwnerRecord {
        let identity = Identity::new("web 3%".to_owned(), 811, service.to_owned());
        OwnerRecord {
            identity: Arc::new(identity),
            label: label.map(|label| Cow::Owned(label.to_owned())),
            since: Duration::from_millis(1_763_672_000_123),
        }
    }

    #[test]
    fn a_record_survives_the_store() {
        let token = OwnerSource::new().unwrap().mint().token();
        for record in [record("shop", Some("pay it % now")), record("", None), record("läden", Some(""))] {
            let value = record.to_value(&token);
            assert!(value.starts_with(token.as_str()));
            assert_eq!(OwnerRecord::from_value(&value), Some(record), "{value}");
        }
    }

    #[test]
    fn a_foreign_value_has_no_record() {
        for value in ["", "a-uuid", "é", &"x".repeat(60), &format!("{} host=a", "a".repeat(48))] {
            assert_eq!(OwnerRecord::from_value(value), None, "{value}");
        }
    }

    #[test]
    fn fields_are_read_in_any_order_and_the_first_of_a_name_counts() {
        let value = |record: &str| OwnerRecord::from_value(&format!("{} {record}", "a".repeat(48)));
        let read = value("since=7 new=1 service=a=b pid=3 host=h host=i odd").expect("a record");
        assert_eq!((read.identity().host(), read.identity().pid()), ("h", 3));
        assert_eq!((read.identity().service(), read.since_epoch()), ("a=b", Duration::from_millis(7)));
        for without in ["host=h pid=3 service=", "pid=3 service= since=7", "host=h pid=x service= since=7"] {
            assert_eq!(value(without), None, "{without}");
        }
    }
}
