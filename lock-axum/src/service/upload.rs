//! Reads request bodies before the lock is acquired.

use std::any::Any;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum_core::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};

/// The reason why a body was not read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    TooLarge,
    /// The client disconnected, or violated the protocol.
    Incomplete,
    /// The service does not have the body type of axum. A body of another type cannot be replaced by the bytes that
    /// were read.
    OfAnotherType,
}

/// The largest buffer, in bytes, that is allocated before any data has arrived. An announced length alone must not cost
/// more memory.
const MAX_FIRST_BUFFER: u64 = 64 * 1024;

/// Reads a body of axum to its end, and replaces the body by the bytes that were read.
pub(crate) async fn read_first<B: Send + 'static>(body: &mut B, limit: usize) -> Result<(), Unread> {
    let Some(body) = of_axum(body) else { return Err(Unread::OfAnotherType) };
    if body.is_end_stream() {
        return Ok(());
    }
    *body = read(mem::take(body), limit).await?;
    Ok(())
}

fn of_axum<B: 'static>(body: &mut B) -> Option<&mut Body> {
    (body as &mut dyn Any).downcast_mut()
}

async fn read(mut body: Body, limit: usize) -> Result<Body, Unread> {
    let announced = body.size_hint().lower();
    if announced > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(Unread::TooLarge);
    }
    let capacity = usize::try_from(announced.min(MAX_FIRST_BUFFER)).unwrap_or_default();
    // The bytes are copied. Otherwise a piece of one byte could keep a whole buffer of the connection in memory.
    let (mut data, mut trailers) = (Vec::with_capacity(capacity), None);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame.map_err(|_| Unread::Incomplete)?.into_data() {
            Ok(piece) if piece.len() > limit - data.len() => return Err(Unread::TooLarge),
            Ok(piece) => data.extend_from_slice(&piece),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Ok(match trailers {
        None => data.into(),
        Some(trailers) => {
            Body::new(Whole { data: (!data.is_empty()).then(|| data.into()), trailers: Some(trailers) })
        }
    })
}

/// A body that has arrived as a whole, with trailers.
struct Whole {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = self.data.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(
            self.data.as_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers() -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static("x-sum"), http::HeaderValue::from_static("7"))])
    }

    async fn frames(mut body: Body) -> (Vec<u8>, Option<HeaderMap>) {
        let (mut data, mut trailers) = (Vec::new(), None);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            match frame.unwrap().into_data() {
                Ok(piece) => data.extend_from_slice(&piece),
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
        }
        (data, trailers)
    }

    #[tokio::test]
    async fn what_was_read_is_what_the_handler_gets() {
        for (data, end) in
            [(&b"hello"[..], None), (b"hello", Some(trailers())), (b"", Some(trailers())), (b"", None)]
        {
            let bytes = (!data.is_empty()).then(|| Bytes::from_static(data));
            let mut body = Body::new(Whole { data: bytes, trailers: end.clone() });
            assert_eq!(read_first(&mut body, 5).await, Ok(()));
            assert_eq!(body.size_hint().exact(), Some(data.len() as u64));
            assert_eq!(frames(body).await, (data.to_vec(), end));
        }
    }

    #[tokio::test]
    async fn a_body_beyond_the_limit_and_one_of_another_type_are_not_read() {
        assert_eq!(read_first(&mut Body::from("hello!"), 5).await, Err(Unread::TooLarge));
        assert_eq!(read_first(&mut String::from("hello"), 5).await, Err(Unread::OfAnotherType));
    }
}
