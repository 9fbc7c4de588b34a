//! Converts the texts and codes of etcd's errors to failures of the store.

use tonic::{Code, Status};

use crate::backend::remote;
use crate::error::LockErrorKind;

/// How a call reacts to a failure, besides reporting it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reaction {
    #[default]
    None,
    /// The login token of the user has expired, so the call logs in again.
    LogIn,
    /// The lease does not exist.
    NoLease,
    /// A lease with this id exists already.
    LeaseExists,
    /// The user lacks a permission.
    Forbidden,
}

/// A failure of the store.
pub(crate) type Failure = remote::Failure<Reaction>;

/// Converts a status to a failure. Compares the texts of etcd's `rpctypes/error.go`, because the codes differ between
/// versions.
pub(crate) fn of_status(status: &Status) -> Failure {
    let text = status.message();
    let says = |part: &str| text.contains(part);
    match () {
        () if says("requested lease not found") => refused("the lease is over").with_reaction(Reaction::NoLease),
        () if says("lease already exists") => {
            refused("a lease with this id exists").with_reaction(Reaction::LeaseExists)
        }
        () if says("invalid auth token") || says("revision of auth store is old") => {
            unavailable(format!("the login of this client has run out ({text})")).with_reaction(Reaction::LogIn)
        }
        () if says("database space exceeded") => unavailable(
            "its database is full (alarm NOSPACE) and it takes no further locks: compact it, defragment it with \
             `etcdctl defrag`, then clear the alarm with `etcdctl alarm disarm`; `--quota-backend-bytes` sets the size",
        )
        .permanent(),
        () if says("corrupt") => unavailable(
            "it has found its data corrupt (alarm CORRUPT) and takes no further locks: replace the member that \
             `etcdctl alarm list` names",
        )
        .permanent(),
        () if says("user name is empty") => {
            unavailable("it wants a user, and the URL names none: `etcd://user:password@host`").permanent()
        }
        () if says("invalid user ID or password") => {
            unavailable("it refuses the user or the password of the URL").permanent()
        }
        () if says("authentication is not enabled") => {
            unavailable("the URL names a user, and the server has no authentication: leave the user out").permanent()
        }
        () if status.code() == Code::PermissionDenied => unavailable(
            "the user of the URL may not read and write this key: grant its role read and write on the prefix of the \
             keys, `etcdctl role grant-permission <role> readwrite <prefix> --prefix`",
        )
        .permanent()
        .with_reaction(Reaction::Forbidden),
        // etcd refuses such a request before the members agree on it, so it is not executed.
        () if says("too many requests") => unavailable("it is overloaded and refuses requests"),
        () if says("too many operations in txn") => refused(
            "this claim has more keys than one transaction may have: raise `--max-txn-ops` of the server, or lock \
             fewer keys at once",
        ),
        () if status.code() == Code::Unimplemented => {
            remote::Failure::new(LockErrorKind::Unsupported, "it does not know the API v3 of etcd; is it etcd?")
        }
        // The connection broke, the leader changed, or the time ran out. The request may have been executed.
        () => unavailable(format!("it failed ({:?}: {text})", status.code())).in_doubt(),
    }
}

fn unavailable(text: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    remote::Failure::new(LockErrorKind::Unavailable, text)
}

fn refused(text: &'static str) -> Failure {
    remote::Failure::new(LockErrorKind::InvalidRequest, text)
}

/// Returns the failure for an answer that a correct etcd server never sends.
pub(crate) fn unexpected(what: &'static str) -> Failure {
    unavailable(format!("its answer lacks {what}; is it etcd?")).in_doubt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_says_what_to_do_and_whether_to_try_again() {
        use LockErrorKind::{InvalidRequest, Unavailable, Unsupported};
        let table = [
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                InvalidRequest,
                true,
                Reaction::NoLease,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: lease already exists",
                InvalidRequest,
                true,
                Reaction::LeaseExists,
            ),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Unavailable, false, Reaction::LogIn),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Unavailable,
                true,
                Reaction::None,
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty", Unavailable, true, Reaction::None),
            (Code::PermissionDenied, "etcdserver: permission denied", Unavailable, true, Reaction::Forbidden),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                InvalidRequest,
                true,
                Reaction::None,
            ),
            (Code::Unimplemented, "unknown service", Unsupported, true, Reaction::None),
            (Code::Unavailable, "etcdserver: leader changed", Unavailable, false, Reaction::None),
            (Code::Unavailable, "etcdserver: no leader", Unavailable, false, Reaction::None),
            (Code::Unavailable, "etcdserver: request timed out", Unavailable, false, Reaction::None),
            (Code::ResourceExhausted, "etcdserver: too many requests", Unavailable, false, Reaction::None),
            (Code::Unknown, "broken pipe", Unavailable, false, Reaction::None),
        ];
        for (code, text, kind, permanent, reaction) in table {
            let failure = of_status(&Status::new(code, text));
            let seen = (failure.kind(), failure.is_permanent(), failure.reaction);
            assert_eq!(seen, (kind, permanent, reaction), "{text}");
        }
        let full = of_status(&Status::resource_exhausted("etcdserver: mvcc: database space exceeded"));
        assert!(full.text().contains("`etcdctl alarm disarm`"), "{full:?}");
    }
}
