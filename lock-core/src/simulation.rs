//! Provides a simulated world: a clock and a network that replace the clock and the network of the machine on one
//! thread.
//!
//! This module exists for the simulation of this workspace, and is not part of the public interface. A thread can
//! [`enter`] a world. On that thread, leases are measured with the clock of the world, and connections to remote stores
//! use the network of the world. Grants are renewed on the caller's runtime instead of a separate thread.
//!
//! This module imports no other module of the crate, so that the clock and the stores can use it. In a build without
//! the feature `testkit`, `no_simulation.rs` replaces this module, and no world exists.

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
    /// A function that returns the time since the world began.
    pub now: Box<dyn Fn() -> Duration>,
    /// A function that connects to a port of a host.
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

/// Represents that a thread is in a simulated world. The thread leaves the world when this value is dropped.
#[derive(Debug)]
pub struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// Returns the world of the calling thread. While a thread ends, its thread-locals may already be destroyed, but the
/// values that it drops may still read the clock. Such a thread is in no world.
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

/// Lets the tasks that wait for the same change run one after another in a simulated world.
///
/// Tokio wakes the receivers of one change in an order that depends on their addresses in memory. A simulation must
/// depend only on its seed, so the tasks first queue here.
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
    /// Waits for the turn of this caller. Outside of a simulated world, returns at once.
    pub(crate) async fn next(&self) -> Option<MutexGuard<'_, ()>> {
        if is_on() { Some(self.0.lock().await) } else { None }
    }
}
