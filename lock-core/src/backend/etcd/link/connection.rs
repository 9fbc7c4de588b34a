//! Sends calls and opens streams over the connection to a member, which callers share, and logs the user in.

use http::Uri;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};

use super::codec::Messages;
use super::http2::Http2;
use super::streams::Events;
use crate::backend::etcd::error::{Failure, Reaction, of_status};
use crate::backend::etcd::proto::{AuthenticateRequest, AuthenticateResponse};
use crate::backend::remote::Answers;
use crate::sync::RwLock;

/// The size limit of one answer, in bytes. The queue of a key is read in one answer. The list of all locks is read in
/// far smaller parts.
const LARGEST_ANSWER: usize = 64 << 20;

/// The calls that change data. A member without a connection to the majority answers none of them.
const CHANGES: [&str; 3] =
    ["/etcdserverpb.KV/Txn", "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseRevoke"];

/// The stream of a watch.
pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// One or two HTTP/2 connections to a member, with the login of the URL's user.
pub(crate) struct Connection {
    http2: Http2,
    /// The connection for the watches. It is a second connection to the same member, or a clone of `http2`.
    watching: Http2,
    origin: Uri,
    user: Option<(String, String)>,
    /// The token of the login. An expired token is replaced.
    token: RwLock<Option<Token>>,
    /// Held while one call logs in again for all calls of this runtime. Each runtime has its own connection.
    logging_in: tokio::sync::Mutex<()>,
    /// Counts the answers of the member over this connection.
    pub(super) answers: Answers,
    /// Counts the answers that a majority of the members had to confirm.
    pub(super) confirmed: Answers,
}

type Token = MetadataValue<Ascii>;

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(http2: Http2, watching: Http2, origin: Uri, user: Option<(String, String)>) -> Self {
        Self {
            http2,
            watching,
            origin,
            user,
            token: RwLock::new(None),
            logging_in: tokio::sync::Mutex::new(()),
            answers: Answers::default(),
            confirmed: Answers::default(),
        }
    }

    pub(super) fn member(&self) -> &str {
        self.origin.authority().map_or("", |authority| authority.as_str())
    }

    /// Returns whether requests may still be sent.
    pub(super) fn is_open(&self) -> bool {
        self.http2.is_open() && self.watching.is_open()
    }

    /// Calls `path`. If the login has expired, logs in once more and repeats the call. This function sets no deadline.
    pub(crate) async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let again = self.user.is_some().then(|| request.clone());
        let token = self.token();
        match (self.call_once(path, request, token.clone()).await, again) {
            (Err(failure), Some(request)) if failure.reaction == Reaction::LogIn => {
                self.log_in_after(token).await?;
                self.call_once(path, request, self.token()).await
            }
            (answer, _) => answer,
        }
    }

    async fn call_once<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        token: Option<Token>,
    ) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut client = self.client(&self.http2).await?;
        let answer =
            client.unary(with_token(request, token), PathAndQuery::from_static(path), Messages::new()).await;
        if answer.is_ok() {
            self.answers.note();
            if CHANGES.contains(&path) {
                self.confirmed.note();
            }
        }
        answer.map(tonic::Response::into_inner).map_err(|status| of_status(&status))
    }

    /// Opens a stream that sends `request`. The stream ends when the answers are dropped. The stream does not end after
    /// the request, because a proxy (`etcd grpc-proxy`) would then stop answering.
    pub(crate) async fn stream<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        token: Option<Token>,
    ) -> Result<Events<Q, A>, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (open, requests) = mpsc::channel(1);
        // The channel has room for this request.
        let _ = open.try_send(request);
        let mut client = self.client(if path == WATCH { &self.watching } else { &self.http2 }).await?;
        let mut request = with_token(ReceiverStream::new(requests), token);
        // With this header, a member that loses its leader ends the stream. Without this header, such a member would
        // send nothing.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let answers = client.streaming(request, PathAndQuery::from_static(path), Messages::new()).await;
        if answers.is_ok() {
            self.answers.note();
        }
        let answers = answers.map_err(|status| of_status(&status))?.into_inner();
        Ok(Events { answers, _open: open })
    }

    /// Returns the token of the login, if the URL names a user.
    pub(crate) fn token(&self) -> Option<Token> {
        self.token.read().clone()
    }

    /// Logs in again after the token `used` was refused, except if another call has already replaced that token. A
    /// login costs the server a tenth of a second.
    pub(crate) async fn log_in_after(&self, used: Option<Token>) -> Result<(), Failure> {
        let _one_at_a_time = self.logging_in.lock().await;
        if self.token() == used { self.log_in().await } else { Ok(()) }
    }

    /// Requests a token for the user of the URL, if the URL names one.
    pub(super) async fn log_in(&self) -> Result<(), Failure> {
        let Some((name, password)) = self.user.clone() else { return Ok(()) };
        let request = AuthenticateRequest { name, password };
        // This request has no token, because the server would refuse a login with an expired token.
        let answer: AuthenticateResponse =
            self.call_once("/etcdserverpb.Auth/Authenticate", request, None).await?;
        let token = MetadataValue::try_from(answer.token);
        let mut token = token
            .map_err(|_| of_status(&Status::new(Code::Internal, "the token of the login is not ASCII")))?;
        token.set_sensitive(true);
        *self.token.write() = Some(token);
        Ok(())
    }

    async fn client(&self, http2: &Http2) -> Result<Grpc<Http2>, Failure> {
        let mut client =
            Grpc::with_origin(http2.clone(), self.origin.clone()).max_decoding_message_size(LARGEST_ANSWER);
        // No request was sent yet, so the failure is not ambiguous.
        let ready = client.ready().await;
        ready.map_err(|error| of_status(&Status::unavailable(error.to_string())).before_any_request())?;
        Ok(client)
    }
}

fn with_token<T>(message: T, token: Option<Token>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}
