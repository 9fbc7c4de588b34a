//! Refuses options that the store cannot serve, or that contradict each other.

use std::sync::Arc;
use std::time::Duration;

use super::flaw::Flaw;
use super::linger;
use super::options::Options;
use super::take::check_take;
use crate::backend::Capability;
use crate::error::{LockError, LockErrorKind};
use crate::kind::Kind;
use crate::strategy::{Contention, Decision, Strategy};
use crate::words::duration::shown;

/// The shortest interval that `renew_every` may set.
const SHORTEST_CYCLE: Duration = Duration::from_millis(10);

/// The shortest `max_hold`. With a shorter time, the lock would end before its body begins.
const SHORTEST_HOLD: Duration = Duration::from_millis(1);

type Checked<T = ()> = Result<T, Flaw>;

impl Options {
    /// Checks options after the defaults were filled in, and refuses options with which no request could be granted.
    /// Moves the strategy out of the options, and returns it with the `backoff` of the options.
    pub(crate) fn resolve(&mut self, store: &Capability) -> Checked<Arc<dyn Strategy>> {
        let kind = self.kind();
        kind.check(store).map_err(|error| Flaw { option: "kind", error })?;
        check_take(self.take(), kind, store)?;
        if self.fencing() && !store.fencing.gives_tokens() {
            let detail = format!("the {} store gives no fencing tokens", store.store);
            return Err(Flaw::unsupported("fencing", detail));
        }
        store.check_ttl(self.ttl()).map_err(|error| Flaw { option: "ttl", error })?;
        let strategy = self.strategy()?;
        if self.max_waiters == Some(0) {
            let detail = "max_waiters is 0, so nobody could wait: use the strategy `fail_fast`".to_owned();
            return Err(Flaw::invalid("max_waiters", detail));
        }
        self.check_renewal()?;
        self.check_hold(store)?;
        Ok(strategy)
    }

    /// Moves the strategy out of the options, and returns it with the `backoff` of the options, if one is set.
    fn strategy(&mut self) -> Checked<Arc<dyn Strategy>> {
        let strategy = self.take_strategy();
        let name = || strategy.name();
        if let Some(wait) = self.wait.filter(|_| !strategy.takes_wait_limit()) {
            let detail = format!(
                "wait is {wait:?}, but strategy `{}` takes no limit: drop one, or use `retry`",
                name()
            );
            return Err(Flaw::invalid("wait", detail));
        }
        let Some(backoff) = self.backoff else { return Ok(strategy) };
        strategy.with_backoff(backoff).ok_or_else(|| {
            let detail =
                format!("a backoff is given, but strategy `{}` takes none: drop one, or use `retry`", name());
            Flaw::invalid("backoff", detail)
        })
    }

    fn check_renewal(&self) -> Checked {
        let Some(every) = self.renew_every else { return Ok(()) };
        if !self.renew() {
            let detail =
                format!("renew_every is {every:?}, but the lease is not renewed: drop one of the two");
            return Err(Flaw::invalid("renew_every", detail));
        }
        if every < SHORTEST_CYCLE {
            let detail = format!("renew_every is {every:?}: choose {SHORTEST_CYCLE:?} or longer");
            return Err(Flaw::invalid("renew_every", detail));
        }
        Ok(())
    }

    fn check_hold(&self, store: &Capability) -> Checked {
        if self.max_hold.is_some_and(|max| max.is_zero()) {
            return Err(Flaw::invalid("max_hold", "max_hold is 0: nothing could run".to_owned()));
        }
        if let Some(max) = self.max_hold.filter(|max| *max < SHORTEST_HOLD) {
            let detail = format!("max_hold is {max:?}: choose {SHORTEST_HOLD:?} or longer");
            return Err(Flaw::invalid("max_hold", detail));
        }
        let Some(min) = self.min_hold else { return Ok(()) };
        if let Some(max) = self.max_hold.filter(|max| *max < min) {
            let (min, max) = (shown(min), shown(max));
            let detail = format!("min_hold is {min}, longer than max_hold {max}");
            return Err(Flaw::invalid("min_hold", detail));
        }
        let Some(max) = store.keeps_after_release else {
            let detail =
                format!("min_hold is {min:?}: the {} store keeps no key after its release", store.store);
            return Err(Flaw::unsupported("min_hold", detail));
        };
        if min > max {
            let (min, max) = (shown(min), shown(max));
            let detail =
                format!("min_hold is {min}: the {} store keeps a key for {max} at most", store.store);
            return Err(Flaw::invalid("min_hold", detail));
        }
        let ttl = self.ttl();
        if !self.renew() && min > ttl {
            let (min, ttl) = (shown(min), shown(ttl));
            let detail = format!("min_hold is {min}, longer than the ttl {ttl} that is not renewed");
            return Err(Flaw::invalid("min_hold", detail));
        }
        Ok(())
    }

    /// Refuses options of a profile or a manager that no request could use. Unset options are filled in from
    /// `defaults`.
    pub(crate) fn check(&self, defaults: &Self, store: &Capability) -> Checked {
        if let Some(Err(error)) = self.ttl.map(|ttl| store.check_ttl(ttl)) {
            let detail = format!("{}; set another with `.ttl(..)`", error.detail());
            return Err(Flaw::invalid("ttl", detail));
        }
        let mut all = self.clone().or(defaults);
        let ttl = all.ttl();
        if let Some(linger) = self.linger {
            linger::check(linger, ttl, store).map_err(|error| Flaw { option: "linger", error })?;
            self.check_own_linger(linger)?;
        }
        let strategy = all.resolve(store)?;
        self.check_own_max_waiters(&*strategy)
    }

    /// Refuses a linger if these options also set a kind that cannot linger.
    fn check_own_linger(&self, linger: Duration) -> Checked {
        let kind = self.kind.filter(|_| !linger.is_zero());
        match kind.and_then(|kind| Some((kind, linger::cannot_linger(kind, false)?))) {
            Some((kind, why)) => Err(Flaw::invalid("linger", linger::refusal(linger, kind, false, why))),
            None => Ok(()),
        }
    }

    /// Refuses a limit on waiters beside a strategy that does not wait.
    fn check_own_max_waiters(&self, strategy: &dyn Strategy) -> Checked {
        let Some(max) = self.max_waiters else { return Ok(()) };
        let waits = matches!(strategy.decide(&Contention::new()), Decision::RetryAfter(_));
        if self.strategy.is_some() && !waits {
            let name = strategy.name();
            let detail = format!(
                "max_waiters is {max}, but strategy `{name}` does not wait: drop one, or use `retry`"
            );
            return Err(Flaw::invalid("max_waiters", detail));
        }
        Ok(())
    }
}

/// Refuses the kinds that a lock of several keys cannot have. Each of its keys has one holder, so only `Reentrant` and
/// `Write` are accepted.
pub(crate) fn check_several(kind: Kind) -> crate::error::Result<()> {
    if matches!(kind, Kind::Reentrant | Kind::Write) {
        return Ok(());
    }
    let detail = format!(
        "the profile says that kind is {kind}, but several keys have one holder each: use a profile without a kind, or \
         lock one key"
    );
    Err(LockError::new(LockErrorKind::InvalidRequest, detail))
}
