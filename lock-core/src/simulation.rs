//! Provides a simulated world: a clock and a network for one thread, which replace those of the machine.
//!
//! This module exists for the simulation of this workspace, and is not part of the public interface. A thread can
//! [`enter`] a world. On that thread, the world's clock measures leases, the world's dialler makes the connections to
//! remote stores, and grants are renewed on the caller's runtime instead of a separate thread.
//!
//! This is the lowest module of the crate. It imports no other module, so that the clock and the stores can use it. In
//! a build without the feature `testkit`, `no_simulation.rs` replaces it, and no world exists.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, MutexGuard};

/// A connection of a simulated network.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A pending connection of a simulated network.
pub type Dialling = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// The clock and the network of a simulated world.
pub struct World {
    /// Returns the time since the world began.
    pub now: Box<dyn Fn() -> Duration>,
    /// Connects to a port of a host.
    pub dial: Box<dyn Fn(&str, u16) -> Dialling>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// Moves the calling thread into `world` until the returned value is dropped.
#[must_use = "the thread leaves the world when this value is dropped"]
pub fn enter(world: World) -> Inside {
    WORLD.set(Some(Rc::new(world)));
    Inside(())
}

/// The presence of a thread in a simulated world. Dropping this value ends it.
#[derive(Debug)]
pub struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// Returns the world of the calling thread. A thread that has already destroyed its thread-locals is in no world.
/// Values that such a thread drops may still read the clock.
fn world() -> Option<Rc<World>> {
    WORLD.try_with(|world| world.borrow().clone()).ok().flatten()
}

/// Returns whether the calling thread is in a simulated world.
pub(crate) fn is_on() -> bool {
    world().is_some()
}

/// Returns the time of the simulated world, in nanoseconds.
pub(crate) fn now() -> Option<i64> {
    let now = (world()?.now)();
    i64::try_from(now.as_nanos()).ok()
}

/// Connects over the simulated network. Returns `None` outside of a simulated world.
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only stores on a network dial"))]
pub(crate) fn dial(host: &str, port: u16) -> Option<Dialling> {
    Some((world()?.dial)(host, port))
}

/// Waiters for the same change, which take turns in a simulated world.
///
/// Tokio wakes the receivers of one change in an order that depends on their addresses. A simulation must depend only
/// on its seed, so the waiters queue here first.
#[derive(Debug, Default)]
#[cfg_attr(
    not(feature = "_remote"),
    allow(dead_code, reason = "only stores on a network wait for connections")
)]
pub(crate) struct Turns(Mutex<()>);

#[cfg_attr(
    not(feature = "_remote"),
    allow(dead_code, reason = "only stores on a network wait for connections")
)]
impl Turns {
    /// Waits for this caller's turn in a simulated world. Outside of one, returns at once.
    pub(crate) async fn next(&self) -> Option<MutexGuard<'_, ()>> {
        if is_on() { Some(self.0.lock().await) } else { None }
    }
}
