//! Replaces `simulation.rs` in a build without the feature `testkit`, in which no simulated world exists.

/// Returns whether the calling thread is in a simulated world.
pub(crate) const fn is_on() -> bool {
    false
}

/// Returns the time of the simulated world.
pub(crate) const fn now() -> Option<i64> {
    None
}

/// Connects over the simulated network, which never happens here. The stream has the type of a real connection, so that
/// no code for another stream type is compiled.
#[cfg(feature = "redis")]
pub(crate) const fn dial(
    _host: &str,
    _port: u16,
) -> Option<std::future::Ready<std::io::Result<tokio::net::TcpStream>>> {
    None
}

/// Replaces `Turns` of `simulation.rs`. Outside of a simulated world, waiters need not take turns.
#[cfg(feature = "_remote")]
#[derive(Debug, Default)]
pub(crate) struct Turns(());

#[cfg(feature = "_remote")]
impl Turns {
    /// Returns a future that completes at once.
    pub(crate) fn next(&self) -> std::future::Ready<()> {
        std::future::ready(())
    }
}
