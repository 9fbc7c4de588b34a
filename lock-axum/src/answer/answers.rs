//! Makes the answers of a layer to requests that it does not serve.

use std::fmt;
use std::sync::Arc;

use axum_core::response::Response;
use http::StatusCode;
use http::request::Parts;

use super::grpc;
use super::outcome::Outcome;
use super::rejection::LockRejection;

/// The function that the program has set to make the answers.
type Respond = Arc<dyn Fn(&LockRejection, &Parts) -> Response + Send + Sync>;

/// The form of the answers, and the statuses that the program chose. By default, answers are `application/problem+json`
/// with the statuses in the docs of the crate.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    pub(crate) is_grpc: bool,
    /// If it is set, an answer depends on the head of its request.
    pub(crate) respond: Option<Respond>,
    /// The statuses that the program chose. If an outcome has several entries, the last entry applies.
    pub(crate) statuses: Vec<(Outcome, StatusCode)>,
}

impl Answers {
    /// Refuses answers that no client could understand, and options that contradict each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some((outcome, status)) =
            self.statuses.iter().find(|(_, status)| !status.is_client_error() && !status.is_server_error())
        {
            return Err(format!(
                "status {status} for {outcome:?} would tell the client that its request was served: use a 4xx or 5xx"
            ));
        }
        if self.is_grpc && self.respond.is_some() {
            return Err("`grpc` and `respond_with` both make the answers: remove one of them".to_owned());
        }
        match self.statuses.first() {
            Some((outcome, _)) if self.is_grpc => Err(format!(
                "gRPC answers always have the HTTP status 200, so the status for {outcome:?} would be ignored: remove \
                 `status` or `grpc`"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the answer. `request` must be present if [`respond`](Self::respond) is set.
    pub(crate) fn response(&self, rejection: LockRejection, request: Option<&Parts>) -> Response {
        let outcome = rejection.outcome();
        let status = self.statuses.iter().rev().find(|(of, _)| *of == outcome).map(|(_, status)| *status);
        let rejection = match status {
            Some(status) => rejection.with_status(status),
            None => rejection,
        };
        match (&self.respond, request) {
            (Some(respond), Some(request)) => respond(&rejection, request),
            _ if self.is_grpc => grpc::response(&rejection),
            _ => rejection.to_response(),
        }
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers")
            .field("is_grpc", &self.is_grpc)
            .field("has_respond", &self.respond.is_some())
            .field("statuses", &self.statuses)
            .finish()
    }
}
