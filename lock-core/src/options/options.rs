//! The options that a request, its profile and its manager share, and their precedence.

use std::sync::Arc;
use std::time::Duration;

use super::linger;
use super::release::Release;
use crate::backend::Capability;
use crate::error::{LockError, LockErrorKind, Result};
use crate::strategy::{self, Strategy};

/// The options that may be left unset: the request's come first, then those of its profile, of the manager, and of this
/// crate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) ttl: Option<Duration>,
    pub(crate) strategy: Option<Arc<dyn Strategy>>,
    pub(crate) wait: Option<Duration>,
    pub(crate) renew: Option<bool>,
    pub(crate) release: Option<Release>,
    /// How long the grant stays at hand after its release; zero for not at all.
    pub(crate) linger: Option<Duration>,
}

impl Options {
    /// The default lease: a holder that crashed keeps others out for at most this long.
    const TTL: Duration = Duration::from_secs(10);

    /// The options of this crate. All are set but the limit.
    pub(crate) fn of_this_crate() -> Self {
        Self {
            ttl: Some(Self::TTL),
            strategy: Some(Arc::new(strategy::retry())),
            wait: None,
            renew: Some(true),
            release: Some(Release::Await),
            linger: None,
        }
    }

    /// Fills in what is not set from `defaults`. This is the precedence.
    ///
    /// A limit belongs to the strategy beside it. Where a strategy is set here, the limit of `defaults` does not apply:
    /// it must not clash with a strategy that takes none.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let wait = if self.strategy.is_none() { defaults.wait } else { None };
        Self {
            ttl: self.ttl.or(defaults.ttl),
            wait: self.wait.or(wait),
            strategy: self.strategy.or_else(|| defaults.strategy.clone()),
            renew: self.renew.or(defaults.renew),
            release: self.release.or(defaults.release),
            linger: self.linger.or(defaults.linger),
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(Self::TTL)
    }

    pub(crate) fn renew(&self) -> bool {
        self.renew.unwrap_or(true)
    }

    pub(crate) fn release(&self) -> Release {
        self.release.unwrap_or_default()
    }

    /// Takes the strategy out.
    pub(crate) fn take_strategy(&mut self) -> Arc<dyn Strategy> {
        self.strategy.take().unwrap_or_else(|| Arc::new(strategy::retry()))
    }

    /// Refuses a lease that the store cannot hold, and a limit that the strategy does not take. `whose` begins the
    /// error. A strategy that is not set here comes from `defaults`.
    pub(crate) fn check(&self, whose: &str, defaults: &Self, store: &Capability) -> Result<()> {
        let invalid = |detail: String| Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        if let Some(Err(error)) = self.ttl.map(|ttl| store.check_ttl(ttl)) {
            return invalid(format!("{whose} {}; set another with `.ttl(..)`", error.detail()));
        }
        let ttl = self.ttl.or(defaults.ttl).unwrap_or(Self::TTL);
        if let Some(Err(error)) = self.linger.map(|linger| linger::check(linger, ttl, store)) {
            return invalid(format!("{whose} {}", error.detail()));
        }
        if let (Some(wait), Some(strategy)) =
            (self.wait, self.strategy.as_ref().or(defaults.strategy.as_ref()))
            && !strategy.takes_wait_limit()
        {
            let name = strategy.name();
            return invalid(format!(
                "{whose} wait is {wait:?}, but strategy `{name}` takes no limit: drop one, or use `retry`"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(
        ttl: Option<u64>,
        strategy: Option<&'static str>,
        wait: Option<u64>,
        renew: Option<bool>,
    ) -> Options {
        let strategy: Option<Arc<dyn Strategy>> = strategy.map(|name| match name {
            "retry" => Arc::new(strategy::retry()) as Arc<dyn Strategy>,
            _ => Arc::new(strategy::fail_fast()),
        });
        let (ttl, wait) = (ttl.map(Duration::from_secs), wait.map(Duration::from_secs));
        Options { ttl, strategy, wait, renew, release: None, linger: None }
    }

    #[test]
    fn the_request_counts_then_its_profile_then_the_manager() {
        let manager = options(Some(3), Some("retry"), Some(30), Some(true)).or(&Options::of_this_crate());
        let profile = options(Some(2), None, Some(20), Some(false));
        // The options of the request, and what comes of them: ttl, strategy, limit, renewal.
        let table = [
            (options(None, None, None, None), (2, "retry", Some(20), false)),
            (options(Some(1), None, None, Some(true)), (1, "retry", Some(20), true)),
            (options(None, None, Some(10), None), (2, "retry", Some(10), false)),
            (options(None, Some("fail_fast"), None, None), (2, "fail_fast", None, false)),
        ];
        for (request, (ttl, name, wait, renew)) in table {
            let mut all = request.or(&profile).or(&manager);
            assert_eq!((all.ttl().as_secs(), all.renew()), (ttl, renew), "{all:?}");
            assert_eq!(all.wait.map(|wait| wait.as_secs()), wait, "{all:?}");
            assert_eq!(all.take_strategy().name(), name);
        }
        let linger = |ms| Options { linger: Some(Duration::from_millis(ms)), ..Options::default() };
        let lingers = linger(0).or(&linger(2)).or(&linger(3)).linger;
        assert_eq!(lingers, Some(Duration::ZERO), "a request switches it off");
        assert_eq!(Options::default().or(&linger(2)).or(&linger(3)).linger, Some(Duration::from_millis(2)));
        let profile = options(None, Some("fail_fast"), None, None);
        let all = Options::default().or(&profile).or(&manager);
        assert_eq!(all.wait, None, "the limit of the manager belongs to the strategy of the manager");
    }

    #[test]
    fn the_end_of_a_body_waits_as_the_request_says_then_its_profile() {
        let of = |release| Options { release, ..Options::default() };
        let (waits, goes_on) = (Some(Release::Await), Some(Release::Background));
        for (request, profile, expected) in [
            (None, None, Release::Await),
            (None, goes_on, Release::Background),
            (waits, goes_on, Release::Await),
            (goes_on, waits, Release::Background),
        ] {
            let all = of(request).or(&of(profile)).or(&Options::of_this_crate());
            assert_eq!(all.release(), expected, "{request:?}, {profile:?}");
        }
    }
}
