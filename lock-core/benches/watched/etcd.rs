//! etcd without the library: one entry, put and deleted, on a lease that is there.

use std::future::Future;
use std::pin::Pin;

use http::uri::PathAndQuery;
use tokio::net::TcpStream;
use tonic::Request;
use tonic::client::Grpc;

use self::codec::Messages;
use self::http2::{Driver, Http2};
use crate::tables::Least;

// The connection and the codec of the library: what is compared is the work of a lock.
#[path = "../../src/backend/etcd/link/codec.rs"]
mod codec;
#[allow(dead_code, reason = "the library asks more of a connection")]
#[path = "../../src/backend/etcd/link/http2.rs"]
mod http2;

const TTL: i64 = 3_600;

pub(crate) struct Etcd {
    client: Grpc<Http2>,
    lease: i64,
    _driver: Driver,
}

/// `LeaseGrantRequest` and its answer, `PutRequest`, `DeleteRangeRequest` of etcd's rpc.proto, as far as they are used here.
#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrant {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Lease {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Ignored {}

impl Etcd {
    pub(crate) async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
        stream.set_nodelay(true).expect("nodelay");
        let (http2, driver) = Http2::begin(stream).await.expect("HTTP/2");
        let origin = http2::origin("127.0.0.1", port, false).expect("a URI");
        let mut etcd = Self { client: Grpc::with_origin(http2, origin), lease: 0, _driver: driver };
        let lease: Lease = etcd.ask("/etcdserverpb.Lease/LeaseGrant", LeaseGrant { ttl: TTL }).await;
        etcd.lease = lease.id;
        etcd
    }

    async fn ask<Q, A>(&self, path: &'static str, request: Q) -> A
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut client = self.client.clone();
        client.ready().await.expect("a connection");
        let path = PathAndQuery::from_static(path);
        client
            .unary(Request::new(request), path, Messages::<Q, A>::new())
            .await
            .expect("an answer")
            .into_inner()
    }
}

impl Least for Etcd {
    fn cycle(&self, task: usize) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let key = format!("least/{task}").into_bytes();
            let put = Put { key: key.clone(), value: b"owner".to_vec(), lease: self.lease };
            let Ignored {} = self.ask("/etcdserverpb.KV/Put", put).await;
            let Ignored {} = self.ask("/etcdserverpb.KV/DeleteRange", Delete { key }).await;
        })
    }
}
