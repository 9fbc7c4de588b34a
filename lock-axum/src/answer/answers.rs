//! How a layer answers what it does not serve.

use std::fmt;
use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::request::Parts;

use super::grpc;
use super::outcome::Outcome;
use super::rejection::LockRejection;

type Respond = Arc<dyn Fn(&LockRejection, &Parts) -> Response + Send + Sync>;

/// In what form.
#[derive(Clone, Default)]
pub(crate) enum Form {
    /// `application/problem+json`.
    #[default]
    Problem,
    /// A status of gRPC.
    Grpc,
    /// What a function of the program makes of it.
    Custom(Respond),
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Problem => "Problem",
            Self::Grpc => "Grpc",
            Self::Custom(_) => "Custom(..)",
        })
    }
}

/// The form and the statuses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    pub(crate) form: Form,
    /// The last one of an outcome counts.
    statuses: Vec<(Outcome, StatusCode)>,
}

impl Answers {
    pub(crate) fn set_status(&mut self, outcome: Outcome, status: StatusCode) {
        self.statuses.push((outcome, status));
    }

    /// Whether the function that makes an answer wants to see the request.
    pub(crate) fn look_at_request(&self) -> bool {
        matches!(self.form, Form::Custom(_))
    }

    pub(crate) fn are_grpc(&self) -> bool {
        matches!(self.form, Form::Grpc)
    }

    /// Refuses what no client could understand.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some((outcome, status)) =
            self.statuses.iter().find(|(_, status)| !status.is_client_error() && !status.is_server_error())
        {
            return Err(format!(
                "status {status} for {outcome:?} would tell the client that its request was served: use a 4xx or 5xx"
            ));
        }
        match (&self.form, self.statuses.first()) {
            (Form::Grpc, Some((outcome, _))) => Err(format!(
                "gRPC answers have the HTTP status 200, so a status for {outcome:?} says nothing: drop `status` or `grpc`"
            )),
            _ => Ok(()),
        }
    }

    /// The answer; `request` is there if this [wants it](Self::look_at_request).
    pub(crate) fn response(&self, rejection: LockRejection, request: Option<&Parts>) -> Response {
        let outcome = rejection.outcome();
        let status = self.statuses.iter().rev().find(|(of, _)| *of == outcome).map(|(_, status)| *status);
        let rejection = match status {
            Some(status) => rejection.with_status(status),
            None => rejection,
        };
        match (&self.form, request) {
            (Form::Custom(respond), Some(request)) => respond(&rejection, request),
            (Form::Grpc, _) => grpc::response(&rejection),
            _ => rejection.to_response(),
        }
    }
}
