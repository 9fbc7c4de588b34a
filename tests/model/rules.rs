//! Removes each rule, and expects that a property breaks.

use super::explorer::{Model, explore};
use super::fencing::{self, Fencing, GROW, SetBack};
use super::holds::{
    BACK_AS_KEPT, BACK_WHILE_HELD, BEGIN, FOREIGN, FORGETS, LEFT, LINGERS, LOST_MARK, NUMBERS, OVERTAKEN,
    QUEUED, THREE,
};
use super::properties::{
    BOTH_KEYS, BRIEFLY, GIVES_WAY, KEPT, NO_ORPHAN, ONE_HOLDER, ORDER, PROGRESS, QUEUED_ONCE, SERVED, TOLD,
};
use super::protocol::{BRIEF, Fault, LONG, Rule, Size};
use super::world::Protocol;

#[allow(clippy::print_stdout, reason = "the way to what goes wrong explains the rule")]
fn needed<M: Model>(rule: &str, mut model: M, broken: &str) {
    let seen = explore(&mut model, 1_000_000);
    let (what, trace) = seen.broken.unwrap_or_else(|| panic!("nothing goes wrong without {rule}"));
    println!("without {rule} it is not so that {what}:\n{trace}\n");
    assert_eq!(what, broken, "without {rule}");
}

macro_rules! without {
    ($($test:ident: $rule:ident, $size:expr, $broken:expr;)*) => {$(
        #[test]
        fn $test() {
            let size = Size { without: &[Rule::$rule], ..$size };
            needed(stringify!($rule), Protocol::new(size), $broken);
        }
    )*};
}

without! {
    what_is_not_answered_is_cancelled_again: CancelAgain, BEGIN, NO_ORPHAN;
    who_gives_up_cancels_the_place: CancelPlaces, QUEUED, NO_ORPHAN;
    a_push_counts_from_the_last_answer: CountFromKept, QUEUED, ONE_HOLDER;
    a_sign_of_life_of_the_holder_extends: HeartbeatExtends, QUEUED, ONE_HOLDER;
    no_lease_is_made_shorter: NeverShorten, FROM_BRIEF, ONE_HOLDER;
    a_used_up_owner_never_queues_again: FreshOwner, QUEUED, QUEUED_ONCE;
    an_unanswered_request_is_not_sent_again: OneRequest, BEGIN, NO_ORPHAN;
    the_dead_leave_both_keys: DropBoth, QUEUED, PROGRESS;
    a_sign_of_life_comes_before_the_look: SignFirst, THREE, BOTH_KEYS;
    the_living_are_not_dropped: DropDeadOnly, THREE, KEPT;
    a_place_is_left_with_its_time: PlaceKeepsTime, LEFT_ALIKE, ONE_HOLDER;
    a_place_is_left_with_its_shortest_lease: PlaceKeepsLease, LEFT, ONE_HOLDER;
    a_release_tells_the_head: ToldOfOwn, BEGIN, PROGRESS;
    a_repeated_release_tells_the_head: ToldByRepeats, BEGIN, TOLD;
    scripts_serve_the_oldest_first: OldestFirst, QUEUED, ORDER;
    tickets_grow_though_the_clock_is_set_back: TicketsGrow, SET_BACK, ORDER;
    a_push_for_a_holder_is_ignored: PushIgnored, QUEUED, ONE_HOLDER;
    who_queues_marks_the_holder: MarkedByQueued, QUEUED, SERVED;
    a_sign_of_life_marks_who_took_the_key_past_the_queue: MarkedByHeartbeat, OVERTAKEN, SERVED;
    a_sign_of_life_marks_again_what_a_failover_lost: MarkedByHeartbeat, LOST_MARK, SERVED;
    who_is_served_before_others_starts_marked: GrantedMarked, THREE, SERVED;
    a_release_looks_where_the_mark_is: ReleaseLooksWhereMarked, QUEUED, SERVED;
    a_value_of_another_library_is_left_alone: OnlyOursMarked, FOREIGN, NO_ORPHAN;
    a_grant_lingers_only_where_nobody_waits_here: LineBeforeLinger, LINGERS, TOLD;
    who_begins_to_wait_takes_what_lingers: JoinTakesLinger, LINGERS, TOLD;
    what_lingers_keeps_the_end_of_its_lease: LingerKeepsLease, LINGERS, ONE_HOLDER;
    a_linger_ends_by_time: LingerEnds, LINGERS, BRIEFLY;
    what_lingers_gives_way_to_a_waiter: ContendedEndsLinger, LINGERS, GIVES_WAY;
    what_others_wait_for_does_not_linger: ContendedForbidsLinger, LINGERS, GIVES_WAY;
    a_notification_may_overtake_the_grant: ContendedCountsEarly, LINGERS, GIVES_WAY;
    a_grant_from_the_queue_tells_of_those_behind: GrantTellsOfOthers, THREE_LINGER, GIVES_WAY;
    what_was_given_back_is_not_taken: GivenBackIsGone, LINGERS, ONE_HOLDER;
    a_process_that_ends_gives_back_what_lingers: CloseEndsLinger, CLOSES, NO_ORPHAN;
}

const FROM_BRIEF: Size = Size { tasks: &[&[LONG, LONG], &[BRIEF, LONG]], beats: 2, ..LEFT };
const LEFT_ALIKE: Size = Size { tasks: &[&[LONG, LONG], &[LONG, LONG]], ..LEFT };
const THREE_LINGER: Size = Size { lingers: true, leaves: false, turns: false, ..THREE };
const CLOSES: Size = Size { tasks: &[&[LONG], &[LONG]], closes: true, ..LINGERS };
const SET_BACK: Size = Size { faults: &[Fault::SetBack], ..THREE };

macro_rules! tokens_without {
    ($($test:ident: $rule:ident, $size:expr;)*) => {$(
        #[test]
        fn $test() {
            let size = fencing::Size { without: &[fencing::Rule::$rule], ..$size };
            needed(stringify!($rule), Fencing(size), GROW);
        }
    )*};
}

tokens_without! {
    a_process_numbers_no_faster_than_time: BoundByTime, NUMBERS;
    a_process_numbers_no_further_than_was_confirmed: BoundByConfirmed, FORGETS;
    a_token_is_at_least_the_time: AtLeastTime, FORGETS;
    a_token_is_above_the_last: AboveLast, CLOCK;
    a_release_raises_the_last: ReleaseRaises, CLOCK;
    a_token_is_above_those_of_its_process: AboveOwn, CLOCK;
    a_token_is_one_turns: OfTheTurn, NUMBERS;
    no_turn_counts_on_from_a_token_ahead: AheadIsNoBase, CLOCK_BETWEEN;
    a_turn_that_is_over_gets_no_token: EndedGetsNone, NUMBERS;
    the_last_token_is_remembered_as_long: RememberedAsLong, BACK_AS_KEPT;
    a_renewal_keeps_the_last_token: RenewalKeeps, BACK_WHILE_HELD;
}

const CLOCK: fencing::Size = fencing::Size { set_back: SetBack::AtAnyTime, deaths: false, ..NUMBERS };
const CLOCK_BETWEEN: fencing::Size =
    fencing::Size { set_back: SetBack::BetweenGrants, grants: 3, turns: 1, ..NUMBERS };
