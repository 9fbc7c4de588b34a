//! Defines the body of an answer. The body may carry the lock, and then releases it at its end.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use axum_core::BoxError;
use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use lock_core::{LockGuard, LockScope, LossReason, OnLost};
use pin_project_lite::pin_project;

use super::caught::Panic;
use super::release::release;
use crate::in_use::InUse;

pin_project! {
    /// The body of an answer of [`Lock`](crate::Lock): the body of the wrapped service, or a problem document.
    ///
    /// If the body carries the lock, its last frame and its end wait for the release. If the lock is lost earlier, the
    /// body ends with an error. If the body is dropped before its end, the lock is released in the background.
    pub struct LockBody<B>
    where
        B: Body,
    {
        #[pin]
        state: State<B>,
    }
}

/// The frames to send after the wrapped body has ended.
type Tail<B> = VecDeque<Result<Frame<<B as Body>::Data>, BoxError>>;

pin_project! {
    #[project = StateProj]
    enum State<B>
    where
        B: Body,
    {
        Unlocked { #[pin] body: B },
        Problem { #[pin] body: axum_core::body::Body },
        // Fields are dropped in their order: the body first, then the lock.
        Held { #[pin] body: B, tail: Tail<B>, lock: Option<Held> },
        Releasing { release: Pin<Box<dyn Future<Output = ()> + Send>>, tail: Tail<B> },
        Ended { tail: Tail<B> },
    }
}

/// The lock of a body that is still being sent.
struct Held {
    /// A future that completes when the lock is lost. `None` if a loss does not stop the body.
    lost: Option<Pin<Box<dyn Future<Output = LossReason> + Send>>>,
    scope: LockScope,
    /// The number of bytes that are still to be sent, if the head announced a length.
    left: Option<u64>,
    /// Whether the server stops polling when no bytes remain. Over HTTP/2 the server polls to the end, because trailers
    /// may follow.
    ends_with_length: bool,
    guard: LockGuard,
    in_use: InUse,
}

impl<B: Body> LockBody<B> {
    pub(crate) fn unlocked(body: B) -> Self {
        Self { state: State::Unlocked { body } }
    }

    /// Makes the body of an answer that replaces the answer of the service.
    pub(crate) fn problem(body: axum_core::body::Body) -> Self {
        Self { state: State::Problem { body } }
    }

    /// Makes a body that carries the lock. `announced` is the length in the head of the answer, if any. `version` is
    /// the version of HTTP.
    pub(crate) fn held(
        body: B,
        guard: LockGuard,
        scope: LockScope,
        (announced, version): (Option<u64>, Version),
        on_lost: OnLost,
        in_use: InUse,
    ) -> Self {
        let handle = guard.handle();
        let cancels = on_lost == OnLost::Cancel;
        let lost = cancels.then(|| Box::pin(async move { handle.lost().await }) as Pin<Box<_>>);
        let ends_with_length = version <= Version::HTTP_11;
        let lock = Some(Held { lost, scope, left: announced, ends_with_length, guard, in_use });
        Self { state: State::Held { body, tail: VecDeque::new(), lock } }
    }
}

impl Held {
    /// Polls for the loss of the lock, and returns the reason. Stays pending if a loss does not stop the body.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<BoxError> {
        let Some(lost) = &mut self.lost else { return Poll::Pending };
        // The clock is read before every frame. If the whole process was paused beyond the lease, no further frame may
        // be produced.
        if let Err(error) = self.guard.check_loss() {
            return Poll::Ready(error.into());
        }
        lost.as_mut().poll(cx).map(|reason| format!("the lock was lost: {reason}").into())
    }

    /// Counts the bytes of `frame`. Returns whether the announced length is reached.
    fn count(&mut self, frame: &Frame<Bytes>) -> bool {
        if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
            *left = left.saturating_sub(length(data));
        }
        self.left == Some(0)
    }

    /// Polls for the next frame, in the scope of the lock. The error is a panic of the body.
    fn poll_frame<B: Body>(
        &self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Result<Poll<Option<Result<Frame<B::Data>, B::Error>>>, Panic> {
        let frame = self.scope.clone().enter(poll_fn(|cx| body.as_mut().poll_frame(cx)));
        // `AssertUnwindSafe` is correct, because the body is not used after a panic.
        catch_unwind(AssertUnwindSafe(|| pin!(frame).poll(cx)))
    }
}

/// The next step of a body that carries the lock.
enum Next<B: Body> {
    /// Send this frame.
    Send(Frame<B::Data>),
    /// Poll again.
    Poll,
    /// Release the lock, then send the tail.
    Release,
    /// Release the lock, then resume the panic of the body.
    Panic(Panic),
}

impl<B: Body<Data = Bytes>> State<B>
where
    B::Error: Into<BoxError>,
{
    /// Polls a body that carries the lock. `hyper` drops a body when `is_end_stream` is true or the announced length is
    /// reached. So the frame after which this happens is held back in the tail until the lock is released.
    fn poll_held(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next<B>> {
        let StateProj::Held { mut body, tail, lock: Some(lock) } = self.project() else {
            return Poll::Ready(Next::Release);
        };
        if let Poll::Ready(error) = lock.poll_lost(cx) {
            tail.clear();
            tail.push_back(Err(error));
            return Poll::Ready(Next::Release);
        }
        // The tail has a frame only if the announced length is reached. Then an HTTP/1 server needs no further frame,
        // so the body does not wait for one.
        let is_full = !tail.is_empty();
        let frame = match lock.poll_frame(body.as_mut(), cx) {
            Ok(Poll::Pending) if is_full && lock.ends_with_length => return Poll::Ready(Next::Release),
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(frame)) => frame,
            Err(panic) => return Poll::Ready(Next::Panic(panic)),
        };
        let frame = match frame {
            // Trailers may follow an empty frame if the version of HTTP has trailers.
            Some(Ok(frame)) if is_full && is_empty(&frame) && !lock.ends_with_length => {
                return Poll::Ready(Next::Poll);
            }
            Some(Ok(frame)) if is_full && frame.is_data() => return Poll::Ready(Next::Release),
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                tail.push_back(Err(error.into()));
                return Poll::Ready(Next::Release);
            }
            None => return Poll::Ready(Next::Release),
        };
        let complete = lock.count(&frame) || body.size_hint().exact() == Some(0);
        let last = body.is_end_stream() || frame.is_trailers();
        if !complete && !last && tail.is_empty() {
            return Poll::Ready(Next::Send(frame));
        }
        tail.push_back(Ok(frame));
        Poll::Ready(if last { Next::Release } else { Next::Poll })
    }

    /// Drops the body and starts the release. If the body has panicked, the panic resumes after the release.
    fn begin_release(mut self: Pin<&mut Self>, panic: Option<Panic>) {
        let (tail, lock) = match self.as_mut().project() {
            StateProj::Held { tail, lock, .. } => (mem::take(tail), lock.take()),
            StateProj::Unlocked { .. }
            | StateProj::Problem { .. }
            | StateProj::Releasing { .. }
            | StateProj::Ended { .. } => return,
        };
        let Some(Held { guard, in_use, .. }) = lock else { return self.set(Self::Ended { tail }) };
        self.set(Self::Releasing { release: Box::pin(release_with(guard, in_use, panic)), tail });
    }
}

impl<B> Body for LockBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Unlocked { body } => {
                    return body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)));
                }
                StateProj::Problem { body } => {
                    return body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)));
                }
                StateProj::Held { .. } => match ready!(state.as_mut().poll_held(cx)) {
                    Next::Send(frame) => return Poll::Ready(Some(Ok(frame))),
                    Next::Poll => {}
                    Next::Release => state.as_mut().begin_release(None),
                    Next::Panic(panic) => state.as_mut().begin_release(Some(panic)),
                },
                StateProj::Releasing { release, tail } => {
                    ready!(release.as_mut().poll(cx));
                    let tail = mem::take(tail);
                    state.set(State::Ended { tail });
                }
                StateProj::Ended { tail } => return Poll::Ready(tail.pop_front()),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Unlocked { body } => body.is_end_stream(),
            State::Problem { body } => body.is_end_stream(),
            State::Held { .. } | State::Releasing { .. } => false,
            State::Ended { tail } => tail.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Unlocked { body } => body.size_hint(),
            State::Problem { body } => body.size_hint(),
            State::Held { body, tail, .. } if tail.is_empty() => body.size_hint(),
            State::Ended { tail } if tail.is_empty() => SizeHint::with_exact(0),
            // A frame is held back, so the remaining size is unknown here.
            State::Held { .. } | State::Releasing { .. } | State::Ended { .. } => SizeHint::new(),
        }
    }
}

/// Releases the lock, and then stops counting its keys. If the body has panicked, resumes the panic last.
async fn release_with(guard: LockGuard, in_use: InUse, panic: Option<Panic>) {
    release(guard).await;
    drop(in_use);
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

fn is_empty(frame: &Frame<Bytes>) -> bool {
    frame.data_ref().is_some_and(Bytes::is_empty)
}

fn length(data: &Bytes) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

impl<B: Body> fmt::Debug for LockBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Unlocked { .. } => "unlocked",
            State::Problem { .. } => "problem",
            State::Held { .. } => "held",
            State::Releasing { .. } => "releasing",
            State::Ended { .. } => "ended",
        };
        f.debug_struct("LockBody").field("state", &state).finish_non_exhaustive()
    }
}
