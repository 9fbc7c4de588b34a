//! Defines the options of a request after the defaults were filled in.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::check::check_several;
use super::linger::Lingers;
use super::on_lost::OnLost;
use super::options::Options;
use super::release::Release;
use crate::backend::Capability;
use crate::error::Result;
use crate::kind::Kind;
use crate::label;
use crate::strategy::Strategy;

/// The options of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseOptions {
    pub(crate) kind: Kind,
    pub(crate) renew: bool,
    pub(crate) release: Release,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    /// How long the process keeps the grant after its release.
    pub(crate) linger: Option<Duration>,
}

/// The options of a request, after the defaults were filled in and the options were checked.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) ttl: Duration,
    pub(crate) options: LeaseOptions,
    pub(crate) strategy: Arc<dyn Strategy>,
    pub(crate) wait: Option<Duration>,
    pub(crate) fencing: bool,
    pub(crate) reentrant: bool,
    pub(crate) max_waiters: Option<usize>,
    /// What happens to a body when the lock is lost.
    pub(crate) on_lost: OnLost,
    pub(crate) label: Option<Cow<'static, str>>,
    /// The number of semaphore permits that the request acquires.
    pub(crate) take: u32,
}

impl Resolved {
    /// Checks options after the defaults were filled in, and returns them as a `Resolved`. Moves the strategy and the
    /// label out of `options`. `own_linger` is the linger that the request itself sets. `several` is whether the
    /// request is for several keys.
    pub(crate) fn take_from(
        options: &mut Options,
        own_linger: Option<Duration>,
        several: bool,
        store: &Capability,
    ) -> Result<Self> {
        let strategy = options.resolve(store).map_err(|flaw| flaw.error)?;
        let mut kind = options.kind();
        if several {
            check_several(kind)?;
            // A lock of several keys is exclusive, even if its kind is `Write`.
            kind = Kind::Reentrant;
        }
        let lingers = Lingers { kind, several, ttl: options.ttl() };
        Ok(Self {
            ttl: options.ttl(),
            options: LeaseOptions {
                kind,
                renew: options.renew(),
                release: options.release(),
                renew_every: options.renew_every,
                max_hold: options.max_hold,
                min_hold: options.min_hold,
                linger: lingers.decide(own_linger, options.linger, store)?,
            },
            strategy,
            wait: options.wait,
            fencing: options.fencing(),
            reentrant: options.reentrant.unwrap_or(true),
            max_waiters: options.max_waiters,
            on_lost: options.on_lost(),
            take: options.take(),
            label: options.label.take().map(label::fit),
        })
    }
}
