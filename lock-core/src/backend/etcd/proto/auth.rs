//! The messages for the login of a user.

/// Requests a token. `Debug` shows no password.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(in super::super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(in super::super) name: String,
    #[prost(string, tag = "2")]
    pub(in super::super) password: String,
}

impl std::fmt::Debug for AuthenticateRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthenticateRequest").finish_non_exhaustive()
    }
}

/// The answer to a login: the token. `Debug` does not show the token.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(in super::super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(in super::super) token: String,
}

impl std::fmt::Debug for AuthenticateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthenticateResponse").finish_non_exhaustive()
    }
}
