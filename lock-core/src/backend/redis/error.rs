//! What a failure of the server or of the connection means for a lock, as a table.

mod redirect;

use std::borrow::Cow;
use std::time::Duration;

use ::redis::{ErrorKind, RedisError, ServerError, Value};

use super::config::Address;
use crate::error::{LockError, LockErrorKind};

pub(super) use redirect::Redirect;

/// What the connection itself does about a failure, beside telling the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Nothing.
    Tell,
    /// Load the scripts and send the same once more: the server ran nothing.
    LoadScripts,
    /// Drop the connection and dial again, with all probes: the server is not what it was.
    Reconnect,
    /// The connection is dropped already; the same may be sent over another one, where it does no harm twice.
    Again,
}

/// Whether trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    Temporary,
    Permanent,
}

/// A failure that any number of callers can be told.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: LockErrorKind,
    outlook: Outlook,
    pub(super) reaction: Reaction,
    /// The server refused by name, so it did nothing. Else the request may have been executed.
    refused: bool,
    text: Cow<'static, str>,
    /// Of a node of a Cluster that was asked for what is not its own.
    pub(super) redirect: Option<Redirect>,
}

/// One row: an error code of the server and, where one code means several things, how its text begins.
struct Rule {
    code: &'static str,
    text: &'static str,
    kind: LockErrorKind,
    outlook: Outlook,
    reaction: Reaction,
    advice: &'static str,
}

const fn rule(
    code: &'static str,
    text: &'static str,
    kind: LockErrorKind,
    outlook: Outlook,
    advice: &'static str,
) -> Rule {
    Rule { code, text, kind, outlook, reaction: Reaction::Tell, advice }
}

const CLUSTER: &str =
    "this is a node of a Redis Cluster: write `redis+cluster://` instead of `redis://` in the URL";

/// The first row whose code is equal and whose text is the beginning of the server's text wins.
const RULES: &[Rule] = {
    use LockErrorKind::{InvalidRequest, Unavailable, Unsupported};
    use Outlook::{Permanent, Temporary};
    &[
        Rule {
            reaction: Reaction::LoadScripts,
            ..rule(
                "NOSCRIPT",
                "",
                Unavailable,
                Temporary,
                "the server forgets its scripts as fast as they are loaded",
            )
        },
        Rule {
            reaction: Reaction::Reconnect,
            ..rule(
                "READONLY",
                "",
                Unavailable,
                Temporary,
                "the server has become a replica and refuses writes",
            )
        },
        rule("LOADING", "", Unavailable, Temporary, "the server is still loading its data"),
        rule(
            "BUSY",
            "",
            Unavailable,
            Temporary,
            "somebody's script keeps the server busy; `SCRIPT KILL` ends it",
        ),
        rule("UNKILLABLE", "", Unavailable, Temporary, "somebody's script keeps the server busy"),
        rule("MASTERDOWN", "", Unavailable, Temporary, "the replica has lost its primary"),
        rule(
            "NOREPLICAS",
            "",
            Unavailable,
            Temporary,
            "too few replicas are in reach for `min-replicas-to-write`",
        ),
        rule(
            "OOM",
            "",
            Unavailable,
            Temporary,
            "the server is out of memory; raise its `maxmemory` or free keys",
        ),
        rule(
            "MISCONF",
            "",
            Unavailable,
            Temporary,
            "the server cannot save its data and refuses writes; see its disk",
        ),
        rule(
            "NOAUTH",
            "",
            Unavailable,
            Permanent,
            "the server wants a password; put it into the URL: `redis://user:password@host`",
        ),
        rule("WRONGPASS", "", Unavailable, Permanent, "wrong user or password in the URL"),
        rule(
            "NOPERM",
            "",
            Unavailable,
            Permanent,
            "the user lacks a permission; the documentation of this backend lists the commands and keys it needs",
        ),
        rule(
            "DENIED",
            "",
            Unavailable,
            Permanent,
            "the server is in protected mode and lets nobody in from here",
        ),
        rule("MOVED", "", Unsupported, Permanent, CLUSTER),
        rule("ASK", "", Unsupported, Permanent, CLUSTER),
        rule("TRYAGAIN", "", Unsupported, Permanent, CLUSTER),
        rule("CLUSTERDOWN", "", Unsupported, Permanent, CLUSTER),
        rule("CROSSSLOT", "", Unsupported, Permanent, CLUSTER),
        rule(
            "WRONGTYPE",
            "",
            InvalidRequest,
            Permanent,
            "the key holds other data than a lock; give the locks a namespace of their own",
        ),
        rule(
            "ERR",
            "The user executing the script can't",
            Unavailable,
            Permanent,
            "the user lacks a permission; the documentation of this backend lists the commands and keys it needs",
        ),
        rule(
            "ERR",
            "max number of clients",
            Unavailable,
            Temporary,
            "the server has as many clients as it allows",
        ),
        rule("ERR", "DB index", InvalidRequest, Permanent, "the server has no database of this number"),
        rule(
            "ERR",
            "invalid DB index",
            InvalidRequest,
            Permanent,
            "the server has no database of this number",
        ),
        rule(
            "ERR",
            "This instance has cluster support disabled",
            Unsupported,
            Permanent,
            "this is no node of a Redis Cluster: write `redis://` instead of `redis+cluster://` in the URL",
        ),
        rule("ERR", "unknown command", Unsupported, Permanent, "the server lacks a command that locks need"),
    ]
};

impl Failure {
    pub(super) fn new(kind: LockErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        let outlook = match kind {
            LockErrorKind::Unavailable => Outlook::Temporary,
            _ => Outlook::Permanent,
        };
        Self { kind, outlook, reaction: Reaction::Tell, refused: true, text: text.into(), redirect: None }
    }

    /// The server is a replica: it stays one until somebody promotes it.
    pub(super) fn replica() -> Self {
        let text = "this is a replica, which cannot grant locks; connect to its primary";
        let failure = Self::new(LockErrorKind::Unavailable, text).permanent();
        Self { reaction: Reaction::Reconnect, ..failure }
    }

    /// Of a dial: no request was sent yet, so none can have been executed.
    pub(super) fn before_any_request(mut self) -> Self {
        self.refused = true;
        self
    }

    /// The same, of one server among several.
    pub(super) fn at(self, address: &Address) -> Self {
        Self { text: format!("{address}: {}", self.text).into(), ..self }
    }

    /// Whether an answer came, and whose, is not known.
    pub(super) fn out_of_step() -> Self {
        let text = "the node gave a slot away while it answered, so which answer is whose is not known";
        let failure = Self::new(LockErrorKind::Unavailable, text).in_doubt();
        Self { reaction: Reaction::Again, ..failure }
    }

    /// Of a call that was cut off: it may have been executed, whatever became of the connection since.
    pub(super) fn in_doubt(mut self) -> Self {
        self.refused = false;
        self
    }

    pub(super) fn temporary(mut self) -> Self {
        self.outlook = Outlook::Temporary;
        self
    }

    pub(super) fn permanent(mut self) -> Self {
        self.outlook = Outlook::Permanent;
        self
    }

    /// The deadline of a call passed while its request was on the way.
    pub(super) fn no_answer(deadline: Duration) -> Self {
        let mut failure = Self::new(LockErrorKind::Unavailable, format!("no answer within {deadline:?}"));
        failure.refused = false;
        failure
    }

    /// The server refused twice because the request came after its deadline.
    pub(super) fn late() -> Self {
        Self::new(
            LockErrorKind::Unavailable,
            "the request reached the server after its deadline, twice; is the clock of the server being changed?",
        )
    }

    pub(super) fn kind(&self) -> LockErrorKind {
        self.kind
    }

    /// What is to be told of it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_permanent(&self) -> bool {
        self.outlook == Outlook::Permanent
    }

    /// An answer that no version of the server gives to the command.
    pub(super) fn unexpected(answer: &Value) -> Self {
        let shape = match answer {
            Value::Nil => "nothing",
            Value::Int(_) => "a number",
            Value::BulkString(_) | Value::SimpleString(_) => "a text",
            Value::Okay => "OK",
            Value::Array(_) => "an array of another shape",
            _ => "another type",
        };
        let mut failure = Self::new(
            LockErrorKind::Unavailable,
            format!("unexpected answer ({shape}); is there a proxy in between that rewrites commands?"),
        );
        failure.refused = false;
        failure
    }

    /// What an error reply means.
    pub(super) fn of_reply(error: &ServerError) -> Self {
        Self::of_code(error.code(), error.details().unwrap_or_default())
    }

    /// What the text of an error reply means, code first, as a script hands it on.
    pub(super) fn of_text(text: &str) -> Self {
        let (code, details) = text.split_once(' ').unwrap_or((text, ""));
        Self::of_code(code.trim_start_matches('-'), details)
    }

    fn of_code(code: &str, details: &str) -> Self {
        let (code, details) = inside_script(code, details).unwrap_or((code, details));
        let details = without_arguments(details);
        let rule = RULES.iter().find(|rule| rule.code == code && details.starts_with(rule.text));
        match rule {
            Some(rule) => Self {
                kind: rule.kind,
                outlook: rule.outlook,
                reaction: rule.reaction,
                refused: true,
                text: format!("{} ({code} {details})", rule.advice).into(),
                redirect: Redirect::of(code, details),
            },
            // Not known to have done nothing: a script that fails half-way keeps what it wrote.
            None => Self {
                kind: LockErrorKind::Unavailable,
                outlook: Outlook::Temporary,
                reaction: Reaction::Tell,
                refused: false,
                text: format!("the server answered {code} {details}").into(),
                redirect: None,
            },
        }
    }

    /// What an error of the driver means before the first answer, where there is no TLS.
    pub(super) fn of_greeting(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Io => {
                let text = format!(
                    "connected, but not greeted ({error}); if the server speaks TLS on this port, write `rediss://` in place \
                     of `redis://`, and `redlocks://` of `redlock://`"
                );
                Self::new(LockErrorKind::Unavailable, text)
            }
            _ => Self::of(error),
        }
    }

    /// What an error of the driver means.
    pub(super) fn of(error: &RedisError) -> Self {
        if let Some(code) = error.code() {
            return Self::of_code(code, error.detail().unwrap_or_default());
        }
        match error.kind() {
            ErrorKind::Io => {
                let mut failure = Self::new(LockErrorKind::Unavailable, format!("connection lost ({error})"));
                failure.refused = false;
                failure
            }
            ErrorKind::RESP3NotSupported => Self::new(
                LockErrorKind::Unsupported,
                "the server does not know HELLO; Redis 6.2 is the oldest that works",
            ),
            ErrorKind::Parse => {
                let text = "what listens there does not speak the Redis protocol; is it a TLS port (`rediss://`), or another service?";
                let mut failure = Self::new(LockErrorKind::Unavailable, text);
                failure.refused = false;
                failure
            }
            // The driver's own words here, and not its `Display`: that may repeat arguments.
            _ => {
                let details = error.detail().map_or_else(|| error.category(), without_arguments);
                let mut failure =
                    Self::new(LockErrorKind::Unavailable, format!("protocol error ({details})"));
                failure.refused = false;
                failure
            }
        }
    }

    /// The error that a caller sees.
    pub(super) fn to_error(&self, address: &Address) -> LockError {
        let doubt = if self.refused { "" } else { "; the request may have been executed" };
        let error = LockError::new(self.kind, format!("redis at {address}: {}{doubt}", self.text));
        let error = if self.refused { error.nothing_taken() } else { error };
        if self.is_permanent() { error.permanent() } else { error }
    }
}

/// Before Redis 7 the error of a command inside a script is wrapped:
/// `ERR Error running script (call to f_..): @user_script:9: OOM command not allowed ..`.
fn inside_script<'a>(code: &str, details: &'a str) -> Option<(&'a str, &'a str)> {
    if code != "ERR" || !details.starts_with("Error running script") {
        return None;
    }
    let (_, inner) = details.split_once("@user_script:")?;
    let (_, inner) = inner.split_once(": ")?;
    let inner = inner
        .trim_start_matches("@user_script: ")
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
    let (code, details) = inner.trim_start_matches([' ', '-']).split_once(' ')?;
    Some((code, details))
}

/// The server's text up to where it repeats what it was sent: for an unknown command that can be the password or an
/// owner token. The line number of a script is of no use to anybody either.
fn without_arguments(details: &str) -> &str {
    const ENOUGH: usize = 160;
    let end = ["with args beginning", " arguments:", " script: ", "\n"]
        .iter()
        .filter_map(|mark| details.find(mark))
        .min();
    let details = details[..end.unwrap_or(details.len())].trim_end_matches([' ', ',']);
    match details.char_indices().nth(ENOUGH) {
        Some((cut, _)) => &details[..cut],
        None => details,
    }
}

#[cfg(test)]
mod tests;
