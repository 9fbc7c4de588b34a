//! Running the library inside a simulation: what a whole world on one thread gives it instead of the machine's.
//!
//! For the simulation of this workspace alone, and no part of what is promised. On a thread that has [`enter`]ed one,
//! leases are measured with its clock, connections to Redis are made by its dialler, and the keeper runs on the
//! caller's runtime instead of a thread of its own.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of a simulated network.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is being made.
pub type Dialling = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// What a simulated world gives those who run in it.
pub struct World {
    /// The time since the world began.
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

/// The calling thread lives in `world` until the value is dropped.
#[must_use = "the world ends with this value"]
pub fn enter(world: World) -> Inside {
    WORLD.set(Some(Rc::new(world)));
    Inside(())
}

/// Until this is dropped its thread lives in a simulated world.
#[derive(Debug)]
pub struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// None on a thread that has no thread-locals any more: what it still drops reads the clock.
fn world() -> Option<Rc<World>> {
    WORLD.try_with(|world| world.borrow().clone()).ok().flatten()
}

/// Whether the calling thread lives in a simulated world.
pub(crate) fn is_on() -> bool {
    world().is_some()
}

/// The time of the simulated world, in nanoseconds.
pub(crate) fn now() -> Option<i64> {
    let now = (world()?.now)();
    i64::try_from(now.as_nanos()).ok()
}

/// A connection of the simulated world.
#[cfg(feature = "redis")]
pub(crate) fn dial(host: &str, port: u16) -> Option<Dialling> {
    Some((world()?.dial)(host, port))
}

/// In a simulated world, a turn among those who wait for the same change: tokio wakes them in an order that no seed
/// decides.
#[cfg(feature = "redis")]
pub(crate) async fn turn(queue: &tokio::sync::Mutex<()>) -> Option<tokio::sync::MutexGuard<'_, ()>> {
    if is_on() { Some(queue.lock().await) } else { None }
}
