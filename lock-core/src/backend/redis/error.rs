//! Maps each failure of the server or of the connection to an error of the lock.

mod redirect;

use std::borrow::Cow;

use ::redis::{ErrorKind, RedisError, ServerError, Value};

use super::config::Address;
use crate::backend::remote;
use crate::error::{LockError, LockErrorKind};

pub(crate) use redirect::Redirect;

/// A failure of a Redis server, of its connection, or of a node of a Cluster.
pub(crate) type Failure = remote::Failure<Reaction>;

/// What the library does after a failure, besides reporting it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Report the failure, and do nothing more.
    #[default]
    Report,
    /// Load the scripts and send the request again. The server has not executed the request.
    LoadScripts,
    /// Drop the connection, dial again and repeat all probes. The server is not a primary, or the sentinels name none.
    Reconnect,
    /// The connection has already been dropped. Send the request again over a new connection, if a second execution
    /// does no harm.
    Again,
    /// Send the request to another node of the Cluster, because this node does not have the slot.
    Follow(Redirect),
}

/// One row of the table of error codes. If a code has several meanings, the row also contains the beginning of the
/// text.
struct Rule {
    code: &'static str,
    text: &'static str,
    kind: LockErrorKind,
    /// Whether another attempt may succeed.
    temporary: bool,
    reaction: Reaction,
    advice: &'static str,
}

const fn rule(
    code: &'static str,
    text: &'static str,
    kind: LockErrorKind,
    temporary: bool,
    advice: &'static str,
) -> Rule {
    Rule { code, text, kind, temporary, reaction: Reaction::Report, advice }
}

const fn reacting(code: &'static str, reaction: Reaction, advice: &'static str) -> Rule {
    Rule { code, text: "", kind: LockErrorKind::Unavailable, temporary: true, reaction, advice }
}

/// Returns the rule for a failure that may end by itself.
const fn temporary(code: &'static str, advice: &'static str) -> Rule {
    rule(code, "", LockErrorKind::Unavailable, true, advice)
}

/// Returns the rule for a failure that does not end by itself.
const fn permanent(code: &'static str, advice: &'static str) -> Rule {
    rule(code, "", LockErrorKind::Unavailable, false, advice)
}

const CLUSTER: &str =
    "this is a node of a Redis Cluster: write `redis+cluster://` instead of `redis://` in the URL";

/// The table of error codes. A row matches if its code is the server's code, and the server's text begins with the text
/// of the row. The first row that matches is used.
const RULES: &[Rule] = {
    use LockErrorKind::{InvalidRequest, Unavailable, Unsupported};
    const TEMPORARY: bool = true;
    const PERMANENT: bool = false;
    &[
        reacting(
            "NOSCRIPT",
            Reaction::LoadScripts,
            "the server forgets its scripts as fast as they are loaded",
        ),
        reacting("READONLY", Reaction::Reconnect, "the server has become a replica and refuses writes"),
        temporary("LOADING", "the server is still loading its data"),
        temporary("BUSY", "somebody's script keeps the server busy; `SCRIPT KILL` ends it"),
        temporary("UNKILLABLE", "somebody's script keeps the server busy"),
        temporary("MASTERDOWN", "the replica has lost its primary"),
        temporary("NOREPLICAS", "too few replicas are in reach for `min-replicas-to-write`"),
        temporary("OOM", "the server is out of memory; raise its `maxmemory` or free keys"),
        temporary("MISCONF", "the server cannot save its data and refuses writes; see its disk"),
        permanent("NOAUTH", "the server wants a password; put it into the URL: `redis://user:password@host`"),
        permanent("WRONGPASS", "wrong user or password in the URL"),
        permanent(
            "NOPERM",
            "the user lacks a permission; the documentation of this backend lists the commands and keys it needs",
        ),
        permanent("DENIED", "the server is in protected mode and lets nobody in from here"),
        rule("MOVED", "", Unsupported, PERMANENT, CLUSTER),
        rule("ASK", "", Unsupported, PERMANENT, CLUSTER),
        rule("TRYAGAIN", "", Unsupported, PERMANENT, CLUSTER),
        rule("CLUSTERDOWN", "", Unsupported, PERMANENT, CLUSTER),
        rule("CROSSSLOT", "", Unsupported, PERMANENT, CLUSTER),
        rule(
            "WRONGTYPE",
            "a lock of Redisson",
            InvalidRequest,
            PERMANENT,
            "Redisson has a lock at this key, in a form of its own; give the locks a namespace of their own, and move over \
             with all of them stopped",
        ),
        rule(
            "WRONGTYPE",
            "",
            InvalidRequest,
            PERMANENT,
            "the key holds other data than a lock; give the locks a namespace of their own",
        ),
        rule(
            "ERR",
            "The user executing the script can't",
            Unavailable,
            PERMANENT,
            "the user lacks a permission; the documentation of this backend lists the commands and keys it needs",
        ),
        rule(
            "ERR",
            "max number of clients",
            Unavailable,
            TEMPORARY,
            "the server has as many clients as it allows",
        ),
        rule("ERR", "DB index", InvalidRequest, PERMANENT, "the server has no database of this number"),
        rule(
            "ERR",
            "invalid DB index",
            InvalidRequest,
            PERMANENT,
            "the server has no database of this number",
        ),
        rule(
            "ERR",
            "This instance has cluster support disabled",
            Unsupported,
            PERMANENT,
            "this is no node of a Redis Cluster: write `redis://` instead of `redis+cluster://` in the URL",
        ),
        rule("ERR", "unknown command", Unsupported, PERMANENT, "the server lacks a command that locks need"),
    ]
};

impl Failure {
    /// Returns the failure of a connection to a replica. The failure is permanent: only a promotion would end it.
    pub(crate) fn replica() -> Self {
        let text = "this is a replica, which cannot grant locks; connect to its primary";
        Self::new(LockErrorKind::Unavailable, text).permanent().with_reaction(Reaction::Reconnect)
    }

    /// Returns the failure of a connection whose answers can no longer be matched to its requests.
    pub(crate) fn out_of_step() -> Self {
        let text = "the node gave a slot away while it answered, so which answer is whose is not known";
        Self::new(LockErrorKind::Unavailable, text).in_doubt().with_reaction(Reaction::Again)
    }

    /// Returns the failure of a request that was sent twice and reached the server after its deadline both times.
    pub(crate) fn late() -> Self {
        Self::new(
            LockErrorKind::Unavailable,
            "the request reached the server after its deadline, twice; is the clock of the server being changed?",
        )
    }

    /// Returns the redirect, if a Cluster node sent one instead of executing the request.
    pub(crate) fn redirect(&self) -> Option<&Redirect> {
        match &self.reaction {
            Reaction::Follow(redirect) => Some(redirect),
            _ => None,
        }
    }

    /// Returns the failure for an answer that no server version sends to this command.
    pub(crate) fn unexpected(answer: &Value) -> Self {
        let shape = match answer {
            Value::Nil => "nothing",
            Value::Int(_) => "a number",
            Value::BulkString(_) | Value::SimpleString(_) => "a text",
            Value::Okay => "OK",
            Value::Array(_) => "an array of another shape",
            _ => "another type",
        };
        let text =
            format!("unexpected answer ({shape}); is there a proxy in between that rewrites commands?");
        Self::new(LockErrorKind::Unavailable, text).in_doubt()
    }

    /// Classifies an error reply.
    pub(crate) fn of_reply(error: &ServerError) -> Self {
        Self::of_code(error.code(), error.details().unwrap_or_default())
    }

    /// Classifies the text of an error reply that a script passes on. The text begins with the code.
    pub(crate) fn of_text(text: &str) -> Self {
        let (code, details) = text.split_once(' ').unwrap_or((text, ""));
        Self::of_code(code.trim_start_matches('-'), details)
    }

    fn of_code(code: &str, details: &str) -> Self {
        let (code, details) = inside_script(code, details).unwrap_or((code, details));
        let details = without_arguments(details);
        let rule = RULES.iter().find(|rule| rule.code == code && details.starts_with(rule.text));
        let Some(rule) = rule else {
            // The request may have taken effect, because the earlier writes of a script stay when the script fails.
            let text = format!("the server answered {code} {details}");
            return Self::new(LockErrorKind::Unavailable, text).in_doubt();
        };
        let reaction = Redirect::parse(code, details).map_or_else(|| rule.reaction.clone(), Reaction::Follow);
        let failure = Self::new(rule.kind, format!("{} ({code} {details})", rule.advice));
        let failure = if rule.temporary { failure.temporary() } else { failure.permanent() };
        failure.with_reaction(reaction)
    }

    /// Classifies an error of the driver before the server's first answer, over a TCP connection without TLS.
    pub(crate) fn of_greeting(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Io => {
                let text = format!(
                    "connected, but not greeted ({error}); the server may have as many clients as it allows \
                     (`maxclients`), or it speaks TLS on this port: then write `rediss://` in place of `redis://`, and \
                     `redlocks://` of `redlock://`"
                );
                Self::new(LockErrorKind::Unavailable, text)
            }
            _ => Self::of_error(error),
        }
    }

    /// Classifies an error of the driver.
    pub(crate) fn of_error(error: &RedisError) -> Self {
        if let Some(code) = error.code() {
            return Self::of_code(code, error.detail().unwrap_or_default());
        }
        let text = match error.kind() {
            ErrorKind::RESP3NotSupported => {
                let text = "the server does not know HELLO; Redis 6.2 is the oldest that works";
                return Self::new(LockErrorKind::Unsupported, text);
            }
            ErrorKind::Io => format!("connection lost ({error})"),
            ErrorKind::Parse => {
                let text = "what listens there does not speak the Redis protocol; is it a TLS port (`rediss://`), or \
                            another service?";
                return Self::new(LockErrorKind::Unavailable, text).settled().in_doubt();
            }
            // Uses the driver's description of the error, because the `Display` text may contain arguments of the
            // command.
            _ => {
                let details = error.detail().map_or_else(|| error.category(), without_arguments);
                format!("protocol error ({details})")
            }
        };
        Self::new(LockErrorKind::Unavailable, text).in_doubt()
    }

    /// Returns the error for the caller.
    pub(crate) fn to_error(&self, address: &Address) -> LockError {
        self.error_of(format_args!("redis at {address}"))
    }
}

/// Returns the code and the text of an error of a command inside a script. Servers before Redis 7 wrap both like this:
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

/// Cuts off the arguments that the server repeats, because they may contain the password or an owner token. Also cuts
/// off the line number of a script, which does not help the reader.
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

impl Redirect {
    /// Returns the failure of a call that was redirected until its deadline.
    pub(crate) fn to_failure(&self) -> Failure {
        let text: Cow<'static, str> = match self {
            Self::Moved { place: (host, port), .. } => format!(
                "the nodes do not agree on who has the slot of the key; the last one named {host}:{port}"
            )
            .into(),
            Self::Ask(_) | Self::Later => Cow::Borrowed("the slot of the key is being moved to another node"),
            Self::Down => Cow::Borrowed("the cluster is down, or misses the node of this slot"),
        };
        Failure::new(LockErrorKind::Unavailable, text)
    }
}

#[cfg(test)]
mod tests;
