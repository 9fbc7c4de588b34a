//! Defines the options that a request, its profile and its manager share, and their precedence.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::on_lost::OnLost;
use super::release::Release;
use crate::kind::Kind;
use crate::strategy::{self, Backoff, Strategy};

/// Passes all options to the macro `with`. A configuration reads an option in `by_type` with the parser of its type,
/// and each option in `by_code` with its own function.
macro_rules! all_options {
    ($with:ident) => {
        $with! {
            by_type {
                ttl: Duration,
                strategy: Arc<dyn Strategy>,
                wait: Duration,
                max_waiters: usize,
                fencing: bool,
                reentrant: bool,
                renew: bool,
                renew_every: Duration,
                max_hold: Duration,
                min_hold: Duration,
                on_lost: OnLost,
                release: Release,
                /// How long the process keeps the grant after its release. Zero means that the grant does not linger.
                linger: Duration,
                label: Cow<'static, str>,
            }
            by_code {
                kind: Kind,
                /// The number of semaphore permits that a request acquires.
                take: u32,
                backoff: Backoff,
            }
        }
    };
}

macro_rules! declare {
    ($($how:ident { $($(#[$doc:meta])* $option:ident: $type:ty,)* })*) => {
        /// A set of options, each of which may be unset. The request overrides the profile, the profile overrides the
        /// manager, and the manager overrides the defaults of this crate.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Options {
            $($($(#[$doc])* pub(crate) $option: Option<$type>,)*)*
        }

        impl Options {
            fn fill_each(&mut self, defaults: &Self) {
                $($(if self.$option.is_none() && defaults.$option.is_some() {
                    self.$option.clone_from(&defaults.$option);
                })*)*
            }

            fn unset_one(&mut self, option: &str) -> bool {
                match option {
                    $($(stringify!($option) => self.$option.take().is_some(),)*)*
                    _ => false,
                }
            }
        }
    };
}

all_options!(declare);
#[cfg(feature = "config")]
pub(super) use all_options;

/// The options that the attribute or a layer sets for all its requests. The options of a profile override them.
#[derive(Clone, Default)]
pub(crate) struct Usual {
    pub(crate) label: Option<&'static str>,
    pub(crate) strategy: Option<Arc<dyn Strategy>>,
}

impl Options {
    /// The default ttl of a lease. After its holder crashes, the key stays locked for at most this long.
    const TTL: Duration = Duration::from_secs(10);

    /// Returns the defaults of this crate. Only the ttl and the strategy are set. If another option is unset, its
    /// getter, such as `renew`, returns the default.
    pub(crate) fn of_this_crate() -> Self {
        Self { ttl: Some(Self::TTL), strategy: Some(Arc::new(strategy::retry())), ..Self::default() }
    }

    /// Fills in unset options from `defaults`.
    ///
    /// If an option refines another option, both must come from the same source. If `self` sets a strategy, the `wait`
    /// and the `backoff` of `defaults` do not apply. If `self` disables renewal, the `renew_every` of `defaults` does
    /// not apply. If `self` sets a kind, the `take` of `defaults` does not apply.
    ///
    /// The options are changed in place. Every request calls this function, and moving the options would double its
    /// cost.
    pub(crate) fn fill(&mut self, defaults: &Self) {
        let of_strategy = self.strategy.is_some().then_some((self.wait, self.backoff));
        let of_kind = self.kind.is_some().then_some(self.take);
        let of_renewal = (self.renew == Some(false)).then_some(self.renew_every);
        self.fill_each(defaults);
        if let Some(own) = of_strategy {
            (self.wait, self.backoff) = own;
        }
        if let Some(own) = of_kind {
            self.take = own;
        }
        if let Some(own) = of_renewal {
            self.renew_every = own;
        }
    }

    /// Returns whether a strategy, its wait limit or its backoff is set.
    pub(crate) fn has_strategy(&self) -> bool {
        self.strategy.is_some() || self.wait.is_some() || self.backoff.is_some()
    }

    /// Fills in the options that a request does not set: first from its profile, then from the usual options of its
    /// layer or attribute, and then from the manager.
    pub(crate) fn complete(&mut self, profile: Option<&Self>, usual: Usual, manager: &Self) {
        let has_strategy = self.strategy.is_some() || profile.is_some_and(Self::has_strategy);
        if let Some(profile) = profile {
            self.fill(profile);
        }
        if self.label.is_none() {
            self.label = usual.label.map(Cow::Borrowed);
        }
        if !has_strategy {
            self.strategy = usual.strategy;
        }
        self.fill(manager);
    }

    /// Fills in unset options like [`fill`](Self::fill), and returns the result.
    pub(crate) fn or(mut self, defaults: &Self) -> Self {
        self.fill(defaults);
        self
    }

    /// Unsets the option with this name, and returns whether it was set.
    pub(crate) fn unset(&mut self, option: &str) -> bool {
        if option == "kind" {
            // `take` belongs to the kind, so it is unset too.
            self.take = None;
        }
        self.unset_one(option)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind.unwrap_or_default()
    }

    /// Returns the number of permits that a request acquires.
    pub(crate) fn take(&self) -> u32 {
        self.take.unwrap_or(1)
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

    /// Returns whether the fencing token must come with the grant.
    pub(crate) fn fencing(&self) -> bool {
        self.fencing.unwrap_or_default()
    }

    pub(crate) fn on_lost(&self) -> OnLost {
        self.on_lost.unwrap_or_default()
    }

    pub(crate) fn take_strategy(&mut self) -> Arc<dyn Strategy> {
        self.strategy.take().unwrap_or_else(|| Arc::new(strategy::retry()))
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
        Options { ttl, strategy, wait, renew, ..Options::default() }
    }

    #[test]
    fn the_request_counts_then_its_profile_then_the_manager() {
        let manager = options(Some(3), Some("retry"), Some(30), Some(true)).or(&Options::of_this_crate());
        let profile = options(Some(2), None, Some(20), Some(false));
        // Each row contains the options of the request, and the resulting ttl, strategy, limit and renewal.
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

    /// Returns a set in which every option is set. `first` selects one of two values for each option except `renew`.
    fn full(first: bool) -> Options {
        let time = Duration::from_secs(if first { 1 } else { 2 });
        Options {
            kind: Some(if first { Kind::Fair } else { Kind::Read }),
            take: Some(if first { 1 } else { 2 }),
            ttl: Some(time),
            strategy: Some(if first { Arc::new(strategy::retry()) } else { Arc::new(strategy::wait()) }),
            wait: Some(time),
            backoff: Some(Backoff::exponential(time, time)),
            max_waiters: Some(if first { 1 } else { 2 }),
            fencing: Some(first),
            reentrant: Some(first),
            renew: Some(true),
            renew_every: Some(time),
            max_hold: Some(time),
            min_hold: Some(time),
            on_lost: Some(if first { OnLost::Finish } else { OnLost::Cancel }),
            release: Some(if first { Release::Background } else { Release::Await }),
            linger: Some(time),
            label: Some(if first { "first".into() } else { "second".into() }),
        }
    }

    #[test]
    fn no_option_is_forgotten() {
        let show = |options: Options| format!("{options:?}");
        assert_eq!(show(Options::default().or(&full(true))), show(full(true)), "a default fills in");
        assert_eq!(show(full(true).or(&full(false))), show(full(true)), "what is set stays");
        assert!(!show(full(true)).contains("None"), "{:?}", full(true));
    }

    #[test]
    fn what_refines_another_option_belongs_to_the_one_beside_it() {
        let own = Options { renew: Some(false), ..options(None, Some("fail_fast"), None, None) };
        let all = own.or(&full(true));
        assert_eq!((all.wait, all.backoff, all.renew_every), (None, None, None));
        let own = Options { kind: Some(Kind::Write), ..Options::default() };
        assert_eq!(own.or(&full(true)).take, None, "the permits are those of the other kind");
        let own = Options { take: Some(3), ..Options::default() };
        let all = own.or(&full(true));
        assert_eq!(
            (all.take, all.kind),
            (Some(3), full(true).kind),
            "a number of its own, of the kind of the other"
        );
        let own = Options { renew: Some(true), ..Options::default() };
        assert_eq!(own.or(&full(true)).renew_every, full(true).renew_every);
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
