//! The bugs of a broken store, and the cases that must find them.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// A release frees the key of any holder.
    ReleaseIgnoresOwner,
    /// A release that found nothing answers that it released.
    ReleaseLies,
    /// A release with `keep_for` frees the key at once.
    KeepsNothing,
    /// The former owner of a kept key can renew it.
    KeptIsRenewed,
    /// A renewal of a free key acquires the key.
    RenewResurrects,
    /// A renewal sets the lease, even if that shortens the lease.
    RenewShortens,
    /// A renewal is answered with success and does nothing.
    RenewDoesNothing,
    /// A renewal of another owner's grant is answered with success.
    RenewLies,
    /// The answer to a renewal promises twice the lease that was granted.
    RenewPromisesMore,
    /// The answers to a batch are in another order than the renewals.
    BatchReversed,
    /// A repeated acquire is refused.
    NotIdempotent,
    /// A repeated acquire returns another token.
    AnotherToken,
    /// A repeated acquire sets the lease, even if that shortens the lease.
    AcquireShortens,
    /// Every fifth claim of a held key is granted too.
    TwoHolders,
    /// Leases expire after nine tenths of their time.
    RunsOutEarly,
    /// Leases do not expire.
    NeverRunsOut,
    /// Keys that differ only in case are the same key.
    FoldsCase,
    /// Tokens decrease.
    TokensFall,
    /// Any owner gets a token, even without a grant.
    TokenForAnybody,
    /// Readers exclude each other.
    ReadersExclude,
    /// A writer is granted beside readers.
    WriterBesideReaders,
    /// There is one permit too many.
    OnePermitTooMany,
    /// The queue has no order.
    NoOrder,
    /// If a queued claim is released, its queue entry remains.
    StaysInQueue,
    /// A waiter is notified when the lease expires, but not when the holder releases.
    TellsNobody,
    /// A try whose future is dropped before its end acquires the key for another owner.
    DroppedTryTakes,
    /// A try adds an entry to the queue.
    TryTakesPlace,
    /// An enqueue adds no entry to the queue.
    NobodyHasPlace,
    /// A barging claim is queued although its own manager holds the key.
    PlaceBesideOwn,
    /// A barging claim is never queued.
    NoPlaceForBarging,
    /// A holder that asks for waiters gets the answer that there are none.
    SeesNobody,
    /// If no claim waits, an owner that has lost the key gets the answer that no others wait.
    SeesNoHolder,
    /// A writer that waits for readers is not queued, although the answer says that it is.
    NoPlaceForWriters,
    /// The limit on the length of the queue is ignored.
    AnyRoom,
    /// Positions in the queue are counted from one, not from zero.
    WrongPositions,
    /// A refusal names the first of several keys, even if another one is held.
    NamesFirstOfSeveral,
    /// The error about another kind of lock names the first of several keys, even if another one is in use.
    BlamesFirstOfSeveral,
    /// A refusal names the last holder of a kept key as if it still held the key.
    KeptLooksHeld,
    /// A renewal reports no waiters.
    HidesWaiters,
    /// The date of a queue entry is long ago.
    PlacesUndated,
    /// A queue entry lives for ever.
    NobodyDies,
    /// A queue entry expires at once.
    DiesTooSoon,
    /// A claim with another number of permits, or of another kind, may join the current holders.
    PermitsOfAnyNumber,
    /// A downgrade is answered with success and does nothing.
    DowngradeDoesNothing,
    /// A downgrade releases the key.
    DowngradeFrees,
    /// A downgrade of another owner's grant is answered with success.
    DowngradeLies,
    /// A downgrade does not extend the lease.
    DowngradeKeepsLease,
    /// A downgrade moves waiting writers to the end of the queue.
    DowngradeOvertakes,
    /// A reader that acquires exclusively becomes a writer.
    Upgrades,
    /// A claim of several keys acquires only the first of them.
    FirstOfSeveral,
    /// If another of several keys is held, the first key remains acquired.
    LeavesPart,
    /// Only the first of several keys is renewed.
    RenewsPart,
    /// Only the first of several keys is released.
    ReleasesPart,
    /// A claim of several keys overtakes the queue.
    SeveralOvertake,
    /// All holders of a handed-off grant have the same token.
    OneTokenForAllTurns,
    /// Each owner that sets a latch has its own latch.
    LatchOfEachOwner,
    /// Every repetition of a count-down by one owner counts.
    LatchCountsAgain,
    /// Setting an open latch closes it.
    LatchShuts,
    /// The lease of a latch never expires.
    LatchForEver,
    /// A count-down or a wait does not extend the lease of a latch.
    LatchNotKept,
    /// Every step sets the lease of a latch, even if that shortens the lease.
    LatchShortens,
    /// Counting down sets a latch that is not set.
    LatchFromNothing,
    /// A latch and a lock may use the same key at once.
    LatchBesideLock,
    /// The store sends no notification.
    Mute,
    /// The holder is notified of each waiter.
    TellsOfEverybody,
    /// Grants and renewals have the time of the answer instead of the time of the request.
    SentLate,
    /// A release does nothing.
    ReleaseDoesNothing,
    /// No lease is shorter than a minute.
    LongLeases,
    /// A batch has one answer too many.
    OneAnswerTooMany,
    /// A renewal whose future is dropped before its end loses the grant of the holder.
    DroppedRenewalLoses,
    /// Until an enqueue is answered, its queue entry has another owner.
    DroppedPlaceStays,
    /// The capability differs from call to call.
    CapabilityChanges,
    /// The capability says that a key can be kept after its release, but for zero time.
    Contradicts,
    /// A probe is granted beside a holder.
    ProbeLies,
    /// A heartbeat is answered with `Gone`, although the store needs no heartbeats.
    HeartbeatLies,
    /// The answers say that no key has a holder.
    ListsNobody,
    /// A list ignores the prefix and contains every key.
    IgnoresPrefix,
    /// An inspection of one key returns another key that begins with its name.
    InspectsByPrefix,
    /// A list ignores the limit and contains all keys.
    IgnoresLimit,
    /// A list shows the token of a holder.
    ShowsTokens,
    /// A kept key is listed as held.
    HidesKept,
    /// Only one of several holders is listed.
    ListsOneHolder,
    /// A list shows the time of a holder's request instead of the time of its grant.
    HeldSinceAsked,
    /// The waiters are listed in another order.
    WaitersBackwards,
    /// A forced release removes any holder.
    EvictsAnybody,
    /// A forced release is answered with success and does nothing.
    EvictDoesNothing,
    /// A mode that the capability lacks is treated as exclusive and barging.
    Approximates,
}

impl Fault {
    pub(crate) const ALL: [Self; 86] = [
        Self::ReleaseIgnoresOwner,
        Self::ReleaseLies,
        Self::KeepsNothing,
        Self::KeptIsRenewed,
        Self::RenewResurrects,
        Self::RenewShortens,
        Self::RenewDoesNothing,
        Self::RenewLies,
        Self::RenewPromisesMore,
        Self::BatchReversed,
        Self::NotIdempotent,
        Self::AnotherToken,
        Self::AcquireShortens,
        Self::TwoHolders,
        Self::RunsOutEarly,
        Self::NeverRunsOut,
        Self::FoldsCase,
        Self::TokensFall,
        Self::TokenForAnybody,
        Self::ReadersExclude,
        Self::WriterBesideReaders,
        Self::OnePermitTooMany,
        Self::NoOrder,
        Self::StaysInQueue,
        Self::TellsNobody,
        Self::DroppedTryTakes,
        Self::TryTakesPlace,
        Self::NobodyHasPlace,
        Self::PlaceBesideOwn,
        Self::NoPlaceForBarging,
        Self::SeesNobody,
        Self::SeesNoHolder,
        Self::NoPlaceForWriters,
        Self::AnyRoom,
        Self::WrongPositions,
        Self::NamesFirstOfSeveral,
        Self::BlamesFirstOfSeveral,
        Self::KeptLooksHeld,
        Self::HidesWaiters,
        Self::PlacesUndated,
        Self::NobodyDies,
        Self::DiesTooSoon,
        Self::PermitsOfAnyNumber,
        Self::DowngradeDoesNothing,
        Self::DowngradeFrees,
        Self::DowngradeLies,
        Self::DowngradeKeepsLease,
        Self::DowngradeOvertakes,
        Self::Upgrades,
        Self::FirstOfSeveral,
        Self::LeavesPart,
        Self::RenewsPart,
        Self::ReleasesPart,
        Self::SeveralOvertake,
        Self::OneTokenForAllTurns,
        Self::LatchOfEachOwner,
        Self::LatchCountsAgain,
        Self::LatchShuts,
        Self::LatchForEver,
        Self::LatchNotKept,
        Self::LatchShortens,
        Self::LatchFromNothing,
        Self::LatchBesideLock,
        Self::Mute,
        Self::TellsOfEverybody,
        Self::SentLate,
        Self::ReleaseDoesNothing,
        Self::LongLeases,
        Self::OneAnswerTooMany,
        Self::DroppedRenewalLoses,
        Self::DroppedPlaceStays,
        Self::CapabilityChanges,
        Self::Contradicts,
        Self::ProbeLies,
        Self::HeartbeatLies,
        Self::ListsNobody,
        Self::IgnoresPrefix,
        Self::InspectsByPrefix,
        Self::IgnoresLimit,
        Self::ShowsTokens,
        Self::HidesKept,
        Self::ListsOneHolder,
        Self::HeldSinceAsked,
        Self::WaitersBackwards,
        Self::EvictsAnybody,
        Self::EvictDoesNothing,
    ];

    /// Returns one case that must find the bug. Other cases may find it too.
    pub(crate) fn caught_by(self) -> &'static str {
        match self {
            Self::None => "",
            Self::ReleaseIgnoresOwner => "release::of_another",
            Self::ReleaseLies => "release::twice",
            Self::KeepsNothing | Self::KeptIsRenewed => "release::keeps",
            Self::RenewResurrects => "renewal::not_after_expiry",
            Self::RenewShortens => "renewal::never_shortens",
            Self::RenewDoesNothing => "renewal::outlives_its_first_lease",
            Self::RenewLies => "renewal::not_of_another",
            Self::RenewPromisesMore => "renewal::promises_what_is_kept",
            Self::BatchReversed => "renewal::a_batch_is_answered_in_order",
            Self::NotIdempotent | Self::AnotherToken => "exclusive::asks_again",
            Self::AcquireShortens => "exclusive::asks_again_with_less",
            Self::TwoHolders => "exclusive::excludes",
            Self::RunsOutEarly => "expiry::not_early",
            Self::NeverRunsOut => "expiry::frees",
            Self::FoldsCase => "exclusive::two_keys",
            Self::TokensFall => "fencing::grows_with_every_owner",
            Self::TokenForAnybody => "fencing::only_for_the_holder",
            Self::ReadersExclude => "shared::readers_together",
            Self::WriterBesideReaders => "shared::a_reader_keeps_writers_out",
            Self::OnePermitTooMany => "permit::so_many_and_no_more",
            Self::NoOrder => "fifo::order_of_arrival",
            Self::StaysInQueue => "fifo::one_who_leaves",
            Self::TellsNobody => "release::a_waiter_is_told",
            Self::DroppedTryTakes => "cancel::a_try",
            Self::TryTakesPlace => "fifo::a_try_takes_no_place",
            Self::NobodyHasPlace => "line::tells_positions",
            Self::PlaceBesideOwn => "line::managers_pass_it_on_themselves",
            Self::NoPlaceForBarging => "line::one_who_barges_waits_for_another_manager",
            Self::SeesNobody | Self::SeesNoHolder => "line::one_who_waits_is_seen_by_the_holder",
            Self::NoPlaceForWriters => "fifo::a_writer_is_not_overtaken",
            Self::AnyRoom => "line::has_room_for_so_many",
            Self::WrongPositions => "line::tells_positions",
            Self::NamesFirstOfSeveral => "several::names_the_key_that_is_held",
            Self::BlamesFirstOfSeveral => "several::names_the_key_that_is_in_use",
            Self::KeptLooksHeld => "release::says_kept",
            Self::HidesWaiters => "line::tells_how_many_wait",
            Self::PlacesUndated => "line::places_are_dated",
            Self::NobodyDies => "fifo::one_who_dies",
            Self::DiesTooSoon => "fifo::keeps_its_place",
            Self::PermitsOfAnyNumber => "permit::other_kinds_are_refused",
            Self::DowngradeDoesNothing => "downgrade::lets_readers_in",
            Self::DowngradeFrees => "downgrade::lets_readers_in",
            Self::DowngradeLies => "downgrade::is_for_the_holder",
            Self::DowngradeKeepsLease => "downgrade::has_the_lease_of_its_ttl",
            Self::DowngradeOvertakes => "downgrade::overtakes_no_writer",
            Self::Upgrades => "downgrade::goes_one_way",
            Self::FirstOfSeveral => "several::excludes_on_every_key",
            Self::LeavesPart => "several::all_or_none",
            Self::RenewsPart => "several::is_renewed_whole_or_not",
            Self::ReleasesPart => "several::has_one_owner",
            Self::SeveralOvertake => "several::overtakes_nobody",
            Self::OneTokenForAllTurns => "fencing::one_a_turn",
            Self::LatchOfEachOwner => "latch::is_set_once",
            Self::LatchCountsAgain => "latch::counts_each_owner_once",
            Self::LatchShuts => "latch::stays_open",
            Self::LatchForEver => "latch::ends_with_its_lease",
            Self::LatchNotKept => "latch::every_step_but_looking_keeps_it",
            Self::LatchShortens => "latch::never_shortens_its_lease",
            Self::LatchFromNothing => "latch::of_nothing_nothing_is_counted",
            Self::LatchBesideLock => "latch::a_lock_is_no_latch",
            Self::Mute => "listener::the_holder_is_told",
            Self::TellsOfEverybody => "listener::the_holder_is_told",
            Self::SentLate => "exclusive::grants_are_dated",
            Self::ReleaseDoesNothing => "release::says_released",
            Self::LongLeases => "expiry::shortest",
            Self::OneAnswerTooMany => "renewal::an_empty_batch",
            Self::DroppedRenewalLoses => "cancel::a_renewal",
            Self::DroppedPlaceStays => "cancel::a_place_in_a_queue",
            Self::ProbeLies => "exclusive::a_probe_takes_what_is_free",
            Self::CapabilityChanges | Self::Contradicts => "refusal::the_capability_is_sound",
            Self::HeartbeatLies => "refusal::a_sign_of_life_that_it_does_not_need",
            Self::ListsNobody => "inspect::a_holder_is_listed_until_it_is_none",
            Self::IgnoresPrefix => "inspect::only_what_begins_with_the_prefix_is_listed",
            Self::InspectsByPrefix => "inspect::one_key_is_looked_at_alone",
            Self::IgnoresLimit => "inspect::no_more_than_the_limit_is_listed",
            Self::ShowsTokens => "inspect::no_token_is_shown",
            Self::HidesKept => "inspect::what_is_kept_is_listed_as_such",
            Self::ListsOneHolder => "inspect::permits_are_listed_each",
            Self::HeldSinceAsked => "inspect::one_that_waited_holds_since_its_grant",
            Self::WaitersBackwards => "inspect::those_who_wait_are_listed_in_order",
            Self::EvictsAnybody => "inspect::only_the_grant_that_was_shown_is_taken_away",
            Self::EvictDoesNothing => "inspect::one_whose_grant_is_taken_away_is_told_and_loses",
            Self::Approximates => "refusal::more_than_it_can",
        }
    }
}
