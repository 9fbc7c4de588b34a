//! The network between the members of an etcd cluster, which can be cut.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// The header with which a member begins a connection to another member. Its own id follows.
const FROM: &str = "X-Server-From: ";

/// The connections that are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    #[default]
    Nobody,
    /// The connections from the member with this id.
    From(String),
    All,
}

impl Cut {
    fn is_of(&self, member: &str) -> bool {
        match self {
            Self::Nobody => false,
            Self::From(id) => id == member,
            Self::All => true,
        }
    }
}

/// A proxy in front of the port on which one member listens for the others. It knows which member has opened a
/// connection. So one member can be cut off from the others in both directions, while the others continue.
#[derive(Debug)]
pub(crate) struct Peers {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cut: Cut,
    over: bool,
    /// The members that have opened connections, and both ends of each connection.
    open: Vec<(String, [TcpStream; 2])>,
}

impl State {
    fn close(&mut self) {
        let Self { cut, open, .. } = self;
        open.retain(|(member, ends)| {
            let closes = cut.is_of(member);
            if closes {
                // A connection that has already ended cannot be closed again.
                ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            }
            !closes
        });
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peers {
    /// Starts a proxy to `member`.
    pub(crate) fn before(member: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("cannot listen on 127.0.0.1");
        let address = listener.local_addr().expect("a listener has an address");
        let state = Arc::<Mutex<State>>::default();
        std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    if lock(&state).over {
                        return;
                    }
                    let state = Arc::clone(&state);
                    // If a connection breaks, the member that needs it connects again.
                    std::thread::spawn(move || drop(relay(client, member, &state)));
                }
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes connections, and opens no others of this kind until the next call.
    pub(crate) fn cut(&self, cut: Cut) {
        let mut state = lock(&self.state);
        state.cut = cut;
        state.close();
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        lock(&self.state).over = true;
        self.cut(Cut::All);
        // One more connection wakes the listener, which then ends.
        drop(TcpStream::connect(self.address));
    }
}

fn relay(mut client: TcpStream, member: SocketAddr, state: &Mutex<State>) -> io::Result<()> {
    let mut head = Vec::new();
    let mut buffer = [0; 4_096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&buffer[..length]),
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let from = text.lines().find_map(|line| line.strip_prefix(FROM)).unwrap_or_default().to_owned();
    let mut server = TcpStream::connect(member)?;
    {
        let mut state = lock(state);
        state.open.push((from, [client.try_clone()?, server.try_clone()?]));
        state.close();
    }
    server.write_all(&head)?;
    let (mut replies, mut back) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        drop(io::copy(&mut replies, &mut back));
        drop(back.shutdown(Shutdown::Write));
    });
    io::copy(&mut client, &mut server)?;
    server.shutdown(Shutdown::Write)
}
