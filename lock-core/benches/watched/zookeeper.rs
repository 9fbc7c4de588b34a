//! A lock on ZooKeeper without the library: one node, as the usual lock recipe creates it.

use std::future::Future;
use std::pin::Pin;

use zookeeper_client::{Acls, Client, CreateMode};

use crate::tables::Least;

pub(crate) struct ZooKeeper(Client);

impl ZooKeeper {
    pub(crate) async fn connect(port: u16) -> Self {
        let client = Client::connect(&format!("127.0.0.1:{port}")).await.expect("a session");
        let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create("/least", b"", &mode).await.expect("a node");
        Self(client)
    }
}

impl Least for ZooKeeper {
    fn cycle(&self, task: usize) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let prefix = format!("/least/{task}-lock-");
            let (_, number) = self.0.create(&prefix, b"", &mode).await.expect("a node");
            self.0.delete(&format!("{prefix}{number}"), None).await.expect("it is there");
        })
    }
}
