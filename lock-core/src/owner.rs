//! Who holds a lock: the secret token of one grant, and a record for humans.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(any(test, feature = "testkit"))]
use crate::clock;

/// The identity of one grant: 128 random bits of the process and a counter.
///
/// It is made before the first attempt, so that a grant whose answer got lost can be released by its token. The token
/// is a secret between the process and the store: `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    process: u128,
    counter: u64,
}

/// The bit of the counter that marks owners whose grants are never handed off inside their process; the 33rd character
/// of their token is 8 or more.
const STRICT: u64 = 1 << 63;

impl Owner {
    /// The length of [`Owner::token`] in bytes.
    pub const TOKEN_LEN: usize = 48;

    /// The length of the first part of a token, the [process](Self::process).
    pub(crate) const PROCESS_LEN: usize = 32;

    /// Returns the token as the store keeps it: 48 lower-case hexadecimal digits, the first 32 of which are the
    /// process.
    #[must_use]
    pub fn token(&self) -> OwnerToken {
        let mut text = [0; Self::TOKEN_LEN];
        hex(&self.process.to_be_bytes(), &mut text[..Self::PROCESS_LEN]);
        hex(&self.counter.to_be_bytes(), &mut text[Self::PROCESS_LEN..]);
        OwnerToken(text)
    }
}

impl Owner {
    /// Returns the random part, which all owners of one manager share. A store addresses its notifications by it: see
    /// [`Backend::attach`](crate::backend::Backend::attach).
    #[must_use]
    pub const fn process(&self) -> u128 {
        self.process
    }

    /// Returns whether a grant of `self` may be handed off to `other` inside their process, without the store: both
    /// belong to one manager and request a kind of lock that is handed off.
    #[must_use]
    pub const fn may_hand_off_to(&self, other: &Self) -> bool {
        self.process == other.process && (self.counter | other.counter) & STRICT == 0
    }

    /// Returns the owner whose [token](Self::token) this is, or `None` for any other text.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        let digits = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        if token.len() != Self::TOKEN_LEN || !token.as_bytes().iter().all(digits) {
            return None;
        }
        let (process, counter) = token.split_at(Self::PROCESS_LEN);
        Some(Self {
            process: u128::from_str_radix(process, 16).ok()?,
            counter: u64::from_str_radix(counter, 16).ok()?,
        })
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(..)")
    }
}

/// An [`Owner`] in the form in which it is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnerToken([u8; Owner::TOKEN_LEN]);

impl OwnerToken {
    /// Returns the token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("BUG: hexadecimal digits are ASCII")
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken(..)")
    }
}

fn hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// Makes the owners of one manager.
pub(crate) struct OwnerSource {
    process: u128,
    next: AtomicU64,
}

/// The random part belongs to every token and is as secret as the tokens.
impl fmt::Debug for OwnerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerSource(..)")
    }
}

impl OwnerSource {
    /// Draws the random part from the operating system.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        Ok(Self { process: u128::from_be_bytes(random), next: AtomicU64::new(1) })
    }

    /// See [`Owner::process`].
    pub(crate) fn process(&self) -> u128 {
        self.process
    }

    /// Makes an owner whose grants are never handed off: every release goes to the store.
    pub(crate) fn mint_strict(&self) -> Owner {
        let Owner { process, counter } = self.mint();
        Owner { process, counter: counter | STRICT }
    }

    /// Makes another owner, strict if `owner` is.
    pub(crate) fn mint_like(&self, owner: Owner) -> Owner {
        if owner.counter & STRICT == 0 { self.mint() } else { self.mint_strict() }
    }

    pub(crate) fn mint(&self) -> Owner {
        Owner { process: self.process, counter: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// The process that requests a lock: host name, process id and the name of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    host: String,
    pid: u32,
    service: String,
    /// The three fields as the store keeps them, written once.
    encoded: String,
}

impl Identity {
    /// Returns the identity of this process, with the service name `service`.
    #[must_use]
    pub fn of_this_process(service: &str) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self::new(host, std::process::id(), service.to_owned())
    }

    fn new(host: String, pid: u32, service: String) -> Self {
        let encoded = format!("host={} pid={pid} service={}", Field(&host), Field(&service));
        Self { host, pid, service, encoded }
    }

    /// Returns the name of the host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether this is the identity of the running process. A forked child has the memory of its parent, but
    /// not its threads and not its locks.
    pub(crate) fn is_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Makes the identity of a process that is not the running one.
    #[cfg(test)]
    pub(crate) fn of_another_process() -> Self {
        Self { pid: std::process::id().wrapping_add(1), ..Self::of_this_process("") }
    }

    /// Returns the name of the service; empty if the manager was given none.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }
}

/// Who holds a lock and since when, for humans: it is shown in errors, in logs and in the store's own shell.
///
/// The store keeps it after the owner's token: `<token> host=web-3 pid=811 service=shop label=pay since=1763672000123`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRecord {
    identity: Arc<Identity>,
    label: Option<Cow<'static, str>>,
    since: Duration,
}

impl OwnerRecord {
    /// Makes the record of a request that is made now.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn new(identity: Arc<Identity>, label: Option<Cow<'static, str>>) -> Self {
        Self::since(clock::wall(), identity, label)
    }

    /// Makes the record of a request that was made at `since`, by the wall clock.
    pub(crate) fn since(since: Duration, identity: Arc<Identity>, label: Option<Cow<'static, str>>) -> Self {
        // In whole milliseconds, as the store keeps it.
        let since = since.saturating_sub(Duration::from_nanos(u64::from(since.subsec_nanos() % 1_000_000)));
        Self { identity, label, since }
    }

    /// Returns the process that requested the lock.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the label of the request, which says what the lock is for.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns when the holder requested the lock: time since the Unix epoch by the holder's wall clock, in
    /// milliseconds.
    #[must_use]
    pub fn since_epoch(&self) -> Duration {
        self.since
    }

    /// Returns the value of a stored lock: the token, a space, and this record.
    #[must_use]
    pub fn to_value(&self, token: &OwnerToken) -> String {
        use fmt::Write;
        let mut value = String::with_capacity(Owner::TOKEN_LEN + self.identity.encoded.len() + 64);
        value.push_str(token.as_str());
        value.push(' ');
        value.push_str(&self.identity.encoded);
        if let Some(label) = &self.label {
            let _ = write!(value, " label={}", Field(label));
        }
        value.push_str(" since=");
        let since = u64::try_from(self.since.as_millis()).unwrap_or(u64::MAX);
        let _ = write!(value, "{since}");
        value
    }

    /// Reads a stored value; returns `None` if another program wrote it.
    #[must_use]
    pub fn from_value(value: &str) -> Option<Self> {
        let record = value.get(Owner::TOKEN_LEN..)?.strip_prefix(' ')?;
        if !value.as_bytes()[..Owner::TOKEN_LEN].iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let field = |name: &str| {
            record.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).map(unescape)
        };
        let identity = Identity::new(field("host")?, field("pid")?.parse().ok()?, field("service")?);
        let since = Duration::from_millis(field("since")?.parse().ok()?);
        Some(Self { identity: Arc::new(identity), label: field("label").map(Cow::Owned), since })
    }
}

impl fmt::Display for OwnerRecord {
    /// `web-3 pid 811 (shop, pay)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Anybody with access to the store can write this, so it is escaped: it must not break a line of the log.
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

/// A field of the record, with spaces, control characters, `%` and everything outside ASCII percent-encoded.
struct Field<'a>(&'a str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.as_bytes() {
            match byte {
                b'!'..=b'~' if byte != b'%' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(service: &str, label: Option<&str>) -> OwnerRecord {
        let identity = Identity::new("web 3%".to_owned(), 811, service.to_owned());
        OwnerRecord {
            identity: Arc::new(identity),
            label: label.map(|label| Cow::Owned(label.to_owned())),
            since: Duration::from_millis(1_763_672_000_123),
        }
    }

    #[test]
    fn owners_are_distinct_and_hidden() {
        let source = OwnerSource::new().unwrap();
        let (first, second) = (source.mint(), source.mint());
        assert_ne!(first.token().as_str(), second.token().as_str());
        assert_eq!(first.token().as_str()[..32], second.token().as_str()[..32]);
        assert_eq!(format!("{first:?} {:?}", first.token()), "Owner(..) OwnerToken(..)");
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
}
