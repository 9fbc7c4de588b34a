//! A lock on etcd without the library: one entry, put and deleted, on an existing lease. It sends plain requests, which
//! would overwrite the lock of another client, or transactions that read the entry first.

use std::future::Future;
use std::pin::Pin;

use http::uri::PathAndQuery;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Request;
use tonic::client::Grpc;

use self::codec::Messages;
use self::http2::Http2;
use crate::tables::Least;

// The bench uses the connection and the codec of the library, so that only the work of a lock is compared.
#[path = "../../src/backend/etcd/link/codec.rs"]
mod codec;
#[allow(dead_code, reason = "the library asks more of a connection")]
#[path = "../../src/backend/etcd/link/http2.rs"]
mod http2;

const TTL: i64 = 3_600;

pub(crate) struct Etcd {
    client: Grpc<Http2>,
    lease: i64,
    looks: bool,
    _drivers: JoinSet<()>,
}

/// This message and the next ones are `LeaseGrantRequest` and its answer, `PutRequest`, `DeleteRangeRequest`,
/// `TxnRequest` and its answer in rpc.proto of etcd, with only the fields that the bench uses.
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

/// A condition of a transaction. Its operator is omitted, so the operator has its default value, `=`.
#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    /// The compared field: 1 is the revision of the creation, 3 is the value.
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "5")]
    created: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "7")]
    value: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Op {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
    #[prost(message, optional, tag = "3")]
    delete: Option<Delete>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Done {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Ignored {}

impl Etcd {
    /// Connects and creates a lease. If `looks` is true, each cycle sends transactions that read the entry first.
    pub(crate) async fn connect(port: u16, looks: bool) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
        stream.set_nodelay(true).expect("nodelay");
        let mut drivers = JoinSet::new();
        let http2 = Http2::begin(stream, &mut drivers).await.expect("HTTP/2");
        let origin = format!("http://127.0.0.1:{port}").parse().expect("a URI");
        let mut etcd = Self { client: Grpc::with_origin(http2, origin), lease: 0, looks, _drivers: drivers };
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

impl Etcd {
    async fn txn(&self, compare: Compare, op: Op) {
        let txn = Txn { compare: vec![compare], success: vec![op] };
        let done: Done = self.ask("/etcdserverpb.KV/Txn", txn).await;
        assert!(done.succeeded, "nobody else has the key");
    }
}

impl Least for Etcd {
    fn cycle(&self, task: usize) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let key = format!("least/{task}").into_bytes();
            let value = b"owner".to_vec();
            let put = Put { key: key.clone(), value: value.clone(), lease: self.lease };
            let delete = Delete { key: key.clone() };
            if self.looks {
                let absent = Compare { target: 1, key: key.clone(), created: Some(0), value: None };
                let own = Compare { target: 3, key, created: None, value: Some(value) };
                self.txn(absent, Op { put: Some(put), delete: None }).await;
                self.txn(own, Op { put: None, delete: Some(delete) }).await;
            } else {
                let Ignored {} = self.ask("/etcdserverpb.KV/Put", put).await;
                let Ignored {} = self.ask("/etcdserverpb.KV/DeleteRange", delete).await;
            }
        })
    }
}
