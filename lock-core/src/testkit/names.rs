//! Lets a test choose the addresses to which a host name resolves.

use std::net::SocketAddr;

use crate::sync::Mutex;

static NAMES: Mutex<Vec<(String, Vec<SocketAddr>)>> = Mutex::new(Vec::new());

/// Makes `host` resolve to `addresses`, for every network store of this process. Connections use the ports of
/// `addresses`, and ignore the port of the URL.
pub fn lead(host: &str, addresses: &[SocketAddr]) {
    let mut names = NAMES.lock();
    names.retain(|(name, _)| name != host);
    names.push((host.to_owned(), addresses.to_vec()));
}

/// Returns the addresses to which `host` resolves, if a test has set them.
#[cfg(feature = "_remote")]
pub(crate) fn addresses_of(host: &str) -> Option<Vec<SocketAddr>> {
    NAMES.lock().iter().find(|(name, _)| name == host).map(|(_, addresses)| addresses.clone())
}
