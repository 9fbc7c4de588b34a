//! Lists the reasons why a request is not served, and the answer for each reason.

use http::StatusCode;
use lock_core::LockErrorKind;

/// The reason why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Another request has locked the key: that request still runs, or its `min_hold` is not over. The status is 409.
    Contended,
    /// Another request held the key until the wait was over. The status is 409.
    TimedOut,
    /// Too many requests wait, or too many keys are locked at once. The status is 503.
    Overloaded,
    /// The lock store does not answer. The status is 503.
    StoreUnavailable,
    /// The lock was lost while the handler ran. The status is 503.
    Lost,
    /// A part of the key is missing or invalid. The status is 400.
    KeyInvalid,
    /// The body is longer than [`after_body`](crate::LockLayer::after_body) allows. The status is 413.
    BodyTooLarge,
    /// The body ended early, while [`after_body`](crate::LockLayer::after_body) waited for it. The status is 400.
    BodyIncomplete,
    /// The manager is shutting down. The status is 503.
    ShuttingDown,
    /// The layer is misconfigured. The status is 500.
    Misconfigured,
}

/// The texts and codes of the answer for one outcome.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) kind: &'static str,
    pub(super) status: StatusCode,
    pub(super) title: &'static str,
    pub(super) detail: &'static str,
    /// The [status code of gRPC](https://grpc.io/docs/guides/status-codes/).
    pub(super) grpc: u8,
}

macro_rules! texts {
    ($outcome:expr; $($name:ident = $kind:literal, $status:ident, $grpc:literal, $title:literal, $detail:literal;)*) => {
        match $outcome {
            $(Outcome::$name => &Text {
                kind: $kind, status: StatusCode::$status, title: $title, detail: $detail, grpc: $grpc,
            },)*
        }
    };
}

impl Outcome {
    pub(crate) fn from_kind(kind: LockErrorKind) -> Self {
        match kind {
            LockErrorKind::Contended => Self::Contended,
            LockErrorKind::TimedOut => Self::TimedOut,
            LockErrorKind::Overloaded => Self::Overloaded,
            LockErrorKind::Unavailable | LockErrorKind::NoQuorum => Self::StoreUnavailable,
            LockErrorKind::Lost => Self::Lost,
            LockErrorKind::InvalidKey => Self::KeyInvalid,
            LockErrorKind::ShuttingDown => Self::ShuttingDown,
            _ => Self::Misconfigured,
        }
    }

    pub(super) fn text(self) -> &'static Text {
        texts! { self;
            Contended = "urn:problem-type:lock-contended", CONFLICT, 10, "Locked",
                "Another request has locked this resource.";
            TimedOut = "urn:problem-type:lock-timed-out", CONFLICT, 10, "Locked",
                "Another request kept this resource locked for longer than this one could wait.";
            Overloaded = "urn:problem-type:lock-overloaded", SERVICE_UNAVAILABLE, 8, "Overloaded",
                "Too many requests are waiting for this resource.";
            StoreUnavailable = "urn:problem-type:lock-store-unavailable", SERVICE_UNAVAILABLE, 14, "Lock not available",
                "The request was not started because its lock could not be acquired.";
            Lost = "urn:problem-type:lock-lost", SERVICE_UNAVAILABLE, 10, "Lock lost",
                "The request lost its lock while it ran. It may have had effects: check before you repeat it.";
            KeyInvalid = "urn:problem-type:lock-key-invalid", BAD_REQUEST, 3, "Lock key invalid",
                "A part of the request that the lock key is made of is invalid.";
            BodyTooLarge = "urn:problem-type:lock-body-too-large", PAYLOAD_TOO_LARGE, 8, "Body too large",
                "The body of the request is longer than this server accepts.";
            BodyIncomplete = "urn:problem-type:lock-body-incomplete", BAD_REQUEST, 1, "Body incomplete",
                "The body of the request ended early.";
            ShuttingDown = "urn:problem-type:lock-shutting-down", SERVICE_UNAVAILABLE, 14, "Shutting down",
                "This server accepts no more work.";
            Misconfigured = "about:blank", INTERNAL_SERVER_ERROR, 13, "Internal Server Error",
                "The server is not set up to serve this request.";
        }
    }
}
