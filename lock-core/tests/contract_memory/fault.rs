//! The ways in which a store can be broken, and the cases that must notice.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// A release frees whoever holds.
    ReleaseIgnoresOwner,
    /// A release that found nothing says that it released.
    ReleaseLies,
    /// A release with `keep_for` frees at once.
    KeepsNothing,
    /// A key that is kept can be renewed by its former owner.
    KeptIsRenewed,
    /// A renewal of a free key takes it.
    RenewResurrects,
    /// A renewal sets the lease, shorter or longer.
    RenewShortens,
    /// A renewal says yes and does nothing.
    RenewDoesNothing,
    /// A renewal of what is not ours says yes.
    RenewLies,
    /// A renewal says that it gave twice the lease that it gave.
    RenewPromisesMore,
    /// A batch is answered in another order.
    BatchReversed,
    /// An acquire that is repeated is refused.
    NotIdempotent,
    /// An acquire that is repeated brings another token.
    AnotherToken,
    /// An acquire that is repeated sets the lease, shorter or longer.
    AcquireShortens,
    /// Every fifth claim of a key that is held is granted too.
    TwoHolders,
    /// Leases run out at nine tenths.
    RunsOutEarly,
    /// Leases do not run out.
    NeverRunsOut,
    /// Every key is the same for the store up to its case.
    FoldsCase,
    /// Tokens fall.
    TokensFall,
    /// Anybody gets a token.
    TokenForAnybody,
    /// Readers exclude each other.
    ReadersExclude,
    /// A writer goes in beside readers.
    WriterBesideReaders,
    /// One permit too many.
    OnePermitTooMany,
    /// The queue has no order.
    NoOrder,
    /// One who leaves the queue with its release stays in it.
    StaysInQueue,
    /// A waiter is told when the lease runs out, and not of a release.
    TellsNobody,
    /// A try whose future is dropped before its end takes the key under another owner.
    DroppedTryTakes,
    /// A try takes a place in the queue.
    TryTakesPlace,
    /// Asking for a place takes none.
    NobodyHasPlace,
    /// A barging claim takes a place beside its own manager.
    PlaceBesideOwn,
    /// A barging claim never takes a place.
    NoPlaceForBarging,
    /// A writer that waits for readers has no place, whatever is said.
    NoPlaceForWriters,
    /// There is room for everybody.
    AnyRoom,
    /// Positions count from one.
    WrongPositions,
    /// A renewal tells of nobody who waits.
    HidesWaiters,
    /// A place dates from long ago.
    PlacesUndated,
    /// Whoever has a place keeps it for ever.
    NobodyDies,
    /// A place is lost at once.
    DiesTooSoon,
    /// A claim of another number of permits, or another kind, joins those who are there.
    PermitsOfAnyNumber,
    /// A downgrade says yes and does nothing.
    DowngradeDoesNothing,
    /// A downgrade gives the key back.
    DowngradeFrees,
    /// A downgrade of what is not ours says yes.
    DowngradeLies,
    /// A downgrade does not extend the lease.
    DowngradeKeepsLease,
    /// A downgrade sends writers that wait to the end of the queue.
    DowngradeOvertakes,
    /// A reader that asks for it is a writer.
    Upgrades,
    /// Of several keys only the first is looked at.
    FirstOfSeveral,
    /// Of several keys the first stays taken when another is held.
    LeavesPart,
    /// Of several keys only the first is renewed.
    RenewsPart,
    /// Of several keys only the first is released.
    ReleasesPart,
    /// A claim of several keys goes before those who wait.
    SeveralOvertake,
    /// All turns of a grant have one token.
    OneTokenForAllTurns,
    /// Everybody who sets a latch has one of its own.
    LatchOfEachOwner,
    /// An owner counts down as often as it asks.
    LatchCountsAgain,
    /// An open latch that is set again is shut.
    LatchShuts,
    /// A latch has no lease.
    LatchForEver,
    /// A latch lives for its first lease.
    LatchNotKept,
    /// Every step sets the lease of a latch, shorter or longer.
    LatchShortens,
    /// Counting down sets a latch that is not set.
    LatchFromNothing,
    /// A latch and a lock of one key do not know of each other.
    LatchBesideLock,
    /// Nobody is told anything.
    Mute,
    /// The holder is told of each one who waits.
    TellsOfEverybody,
    /// Grants and renewals are dated when they end.
    SentLate,
    /// A release does nothing.
    ReleaseDoesNothing,
    /// No lease is shorter than a minute.
    LongLeases,
    /// A batch has one answer too many.
    OneAnswerTooMany,
    /// A renewal whose future is dropped before its end loses the grant.
    DroppedRenewalLoses,
    /// Asking for a place takes it under another owner until it is answered.
    DroppedPlaceStays,
    /// The capability is another every time.
    CapabilityChanges,
    /// The capability keeps a key after its release for no time.
    Contradicts,
    /// A probe is granted beside a holder.
    ProbeLies,
    /// A sign of life that is not needed is answered.
    HeartbeatLies,
    /// Nobody holds anything, it says.
    ListsNobody,
    /// Every key is listed, whatever it begins with.
    IgnoresPrefix,
    /// A look at one key finds another that begins with its name.
    InspectsByPrefix,
    /// All keys are listed, however many they are.
    IgnoresLimit,
    /// A list shows the token of a holder.
    ShowsTokens,
    /// What is kept looks held.
    HidesKept,
    /// Of several holders one is listed.
    ListsOneHolder,
    /// Those who wait are listed in another order.
    WaitersBackwards,
    /// Whoever holds is taken the key away.
    EvictsAnybody,
    /// Taking a grant away says yes and does nothing.
    EvictDoesNothing,
    /// What the capability does not name is done as if it were exclusive and barging.
    Approximates,
}

impl Fault {
    pub(crate) const ALL: [Self; 80] = [
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
        Self::NoPlaceForWriters,
        Self::AnyRoom,
        Self::WrongPositions,
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
        Self::WaitersBackwards,
        Self::EvictsAnybody,
        Self::EvictDoesNothing,
    ];

    /// One case that must catch it; others may too.
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
            Self::NoPlaceForWriters => "fifo::a_writer_is_not_overtaken",
            Self::AnyRoom => "line::has_room_for_so_many",
            Self::WrongPositions => "line::tells_positions",
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
            Self::WaitersBackwards => "inspect::those_who_wait_are_listed_in_order",
            Self::EvictsAnybody => "inspect::only_the_grant_that_was_shown_is_taken_away",
            Self::EvictDoesNothing => "inspect::one_whose_grant_is_taken_away_is_told_and_loses",
            Self::Approximates => "refusal::more_than_it_can",
        }
    }
}
