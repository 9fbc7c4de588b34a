//! The network side of a simulated server.

use std::rc::Rc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream};

use crate::resp;
use crate::server::{Server, Talk};

pub(crate) const PORT: u16 = 6379;

/// Runs one life of a server, from its start to its crash.
pub(crate) async fn live(server: Rc<Server>) -> turmoil::Result {
    server.start();
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (stream, from) = listener.accept().await?;
        let server = Rc::clone(&server);
        let client = turmoil::reverse_lookup(from.ip()).unwrap_or_default();
        tokio::task::spawn_local(async move {
            // If the talk ends, the client or the network between the two is down.
            let _ = talk(stream, client, &server).await;
        });
    }
}

async fn talk(mut stream: TcpStream, client: String, server: &Server) -> std::io::Result<()> {
    let (mut received, mut answers) = (BytesMut::new(), Vec::new());
    let mut talk = Talk::with(client);
    loop {
        while let Some(words) = resp::request(&mut received) {
            server.answer(&mut talk, words).write(&mut answers);
        }
        if !answers.is_empty() {
            stream.write_all(&answers).await?;
            answers.clear();
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
}
