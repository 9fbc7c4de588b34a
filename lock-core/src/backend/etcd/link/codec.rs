//! Encodes and decodes messages.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes requests `Q` and decodes answers `A`.
#[derive(Debug)]
pub(super) struct Messages<Q, A>(PhantomData<fn(Q) -> A>);

impl<Q, A> Messages<Q, A> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<Q: Message + 'static, A: Message + Default + 'static> Codec for Messages<Q, A> {
    type Encode = Q;
    type Decode = A;
    type Encoder = Half<Q>;
    type Decoder = Half<A>;

    fn encoder(&mut self) -> Half<Q> {
        Half(PhantomData)
    }

    fn decoder(&mut self) -> Half<A> {
        Half(PhantomData)
    }
}

/// Encodes or decodes one type of message.
#[derive(Debug)]
pub(super) struct Half<T>(PhantomData<fn() -> T>);

impl<T: Message> Encoder for Half<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<T: Message + Default> Decoder for Half<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        T::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
