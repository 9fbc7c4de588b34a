//! Converts the client's errors to failures.

use zookeeper_client::{Error, MultiWriteError};

use crate::backend::remote;
use crate::error::LockErrorKind;

pub(super) type Failure = remote::Failure<Reaction>;

/// What a request does after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reaction {
    #[default]
    Report,
    /// The request is repeated after the connection is back.
    Repeat,
    /// The servers are overloaded, so the request is repeated after a pause.
    RepeatLater,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        failure(&error)
    }
}

/// Returns the error of a transaction that failed as a whole.
pub(super) fn source(error: MultiWriteError) -> Error {
    match error {
        MultiWriteError::RequestFailed { source } | MultiWriteError::OperationFailed { source, .. } => source,
    }
}

/// Returns whether the request may have been executed, or may succeed when it is repeated. This is so if the connection
/// was lost before the answer, or the servers are overloaded.
pub(super) fn is_doubtful(error: &Error) -> bool {
    use Error::{ConnectionLoss, Custom, Throttled, Timeout, UnexpectedError};
    matches!(error, ConnectionLoss | Custom(_) | Timeout | UnexpectedError(_) | Throttled)
}

/// Returns whether the servers refused the request without any effect.
pub(super) fn is_refusal(error: &Error) -> bool {
    use Error::{AuthFailed, InvalidAcl, NoAuth, NoHosts, NoNode, NotReadOnly, QuotaExceeded, Unimplemented};
    matches!(
        error,
        NoAuth | InvalidAcl | AuthFailed | QuotaExceeded | Unimplemented | NoNode | NoHosts | NotReadOnly
    )
}

/// Returns the failure of a request that was sent.
pub(super) fn failure(error: &Error) -> Failure {
    use LockErrorKind::{Unavailable, Unsupported};
    match error {
        Error::NoAuth => Failure::new(
            Unavailable,
            "no permission: the access control list of the nodes below the path of the URL does not admit this user",
        )
        .permanent(),
        // The server has accepted the login of the user, but has recorded no user.
        Error::InvalidAcl => Failure::new(
            Unavailable,
            "it does not know the user of the URL, so nobody would own the nodes; for `auth=sasl`, set up SASL on every \
             server (`authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider` and a JAAS file)",
        )
        .permanent(),
        Error::AuthFailed => Failure::new(Unavailable, "it refuses the user and the password").permanent(),
        Error::QuotaExceeded => {
            Failure::new(Unavailable, "the quota of the path of the URL is used up").permanent()
        }
        Error::Unimplemented => {
            Failure::new(Unsupported, "it is too old: locks need ZooKeeper 3.5 or newer").permanent()
        }
        Error::NoHosts => Failure::new(Unavailable, "cannot connect; are the servers up?"),
        Error::NotReadOnly => {
            Failure::new(Unavailable, "the server is cut off from the majority and only reads")
        }
        Error::SessionExpired | Error::SessionMoved | Error::ClientClosed => {
            Failure::new(Unavailable, "the session ended while the request was under way").in_doubt()
        }
        Error::Throttled => {
            Failure::new(Unavailable, error.to_string()).in_doubt().with_reaction(Reaction::RepeatLater)
        }
        doubtful if is_doubtful(doubtful) => {
            Failure::new(Unavailable, doubtful.to_string()).in_doubt().with_reaction(Reaction::Repeat)
        }
        // Treat unknown errors as ambiguous: the request may have taken effect.
        other => Failure::new(Unavailable, other.to_string()).in_doubt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_answer_leaves_the_claim_to_be_released_and_a_refusal_does_not() {
        for (error, ambiguous, temporary) in [
            (Error::ConnectionLoss, true, true),
            (Error::SessionExpired, true, true),
            (Error::NoHosts, false, true),
            (Error::NoAuth, false, false),
            (Error::AuthFailed, false, false),
            (Error::Unimplemented, false, false),
        ] {
            let told = failure(&error).error_of("ZooKeeper at h:1");
            assert_eq!((told.is_ambiguous(), told.is_temporary()), (ambiguous, temporary), "{told}");
        }
    }

    #[test]
    fn a_request_is_repeated_if_its_answer_was_lost() {
        for (error, reaction) in [
            (Error::ConnectionLoss, Reaction::Repeat),
            (Error::Throttled, Reaction::RepeatLater),
            (Error::SessionExpired, Reaction::Report),
            (Error::NoNode, Reaction::Report),
            (Error::NoAuth, Reaction::Report),
        ] {
            assert_eq!(failure(&error).reaction, reaction, "{error}");
            assert_eq!(is_doubtful(&error), reaction != Reaction::Report, "{error}");
        }
    }
}
