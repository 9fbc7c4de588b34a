//! The properties that hold in every state.

use super::explorer::{Model, explore};
use super::fencing::{self, Fencing, SetBack};
use super::protocol::{BRIEF, Fault, LONG, Size};
use super::scale::scale;
use super::world::Protocol;

/// A model with up to this many states must be explored completely.
const SMALL: usize = 1_000_000;
const BIG: usize = 20_000_000;

/// Two processes start from an empty store. A request of one of them is not answered in time.
pub(crate) const BEGIN: Size = Size {
    tasks: &[&[LONG], &[LONG]],
    queued: false,
    grabs: true,
    owners: 2,
    beats: 0,
    renewals: 0,
    unanswered: 1,
    turns: true,
    leaves: false,
    foreign: None,
    lingers: false,
    closes: false,
    faults: &[],
    without: &[],
};

/// Two processes start from an empty store, and their released grants may linger.
pub(crate) const LINGERS: Size =
    Size { tasks: &[&[LONG, LONG], &[LONG]], unanswered: 0, turns: false, lingers: true, ..BEGIN };

/// One process holds the key, and another of its tasks will request it. The other process waits in the store's queue.
pub(crate) const QUEUED: Size = Size {
    tasks: &[&[LONG, LONG], &[LONG]],
    queued: true,
    grabs: false,
    owners: 2,
    beats: 1,
    renewals: 0,
    unanswered: 0,
    turns: true,
    leaves: true,
    foreign: None,
    lingers: false,
    closes: false,
    faults: &[],
    without: &[],
};

/// The waiter may leave its queue entry to another task, which requests a shorter lease.
pub(crate) const LEFT: Size = Size { tasks: &[&[LONG, LONG], &[LONG, BRIEF]], turns: false, ..QUEUED };

pub(crate) const THREE: Size = Size { tasks: &[&[LONG], &[LONG], &[LONG]], owners: 1, ..QUEUED };

/// A holder's lease may expire while another process waits, and a plain SET may take the key before the waiter looks.
pub(crate) const OVERTAKEN: Size = Size { grabs: true, beats: 2, turns: false, ..QUEUED };

/// The mark of a holder may be lost while others wait.
pub(crate) const LOST_MARK: Size = Size { faults: &[Fault::LoseMark], ..QUEUED };

/// One of the processes uses another library.
pub(crate) const FOREIGN: Size =
    Size { tasks: &[&[LONG, LONG], &[LONG]], beats: 1, turns: false, foreign: Some(1), ..BEGIN };

/// The only faults are lost and late messages, and dead holders.
pub(crate) const NUMBERS: fencing::Size = fencing::Size {
    end: 6,
    ttl: 2,
    turns: 2,
    asks: 1,
    grants: 2,
    deaths: true,
    loses: false,
    set_back: SetBack::Never,
    back: 2,
    kept: 9,
    without: &[],
};

/// The server forgets its data, and an old holder does not know of its successor yet.
pub(crate) const FORGETS: fencing::Size =
    fencing::Size { loses: true, turns: 1, end: 6, ttl: 4, deaths: false, ..NUMBERS };

/// The clock is set back by no more than the time for which the last token is remembered. Each token that is then ahead
/// of the clock is the last token plus one.
pub(crate) const BACK_AS_KEPT: fencing::Size =
    fencing::Size { set_back: SetBack::AtAnyTime, kept: 3, end: 7, turns: 1, deaths: false, ..NUMBERS };

/// The clock is set back by more than that time, while the holder has a token. The model ends when that token is
/// forgotten.
pub(crate) const BACK_WHILE_HELD: fencing::Size = fencing::Size {
    set_back: SetBack::WhileHeld,
    back: 3,
    kept: 2,
    end: 8,
    turns: 1,
    deaths: false,
    ..NUMBERS
};

#[allow(clippy::print_stdout, reason = "how much was seen is part of the result")]
fn check<M: Model>(name: &str, mut model: M, limit: usize) {
    let seen = explore(&mut model, limit);
    println!("{name}: {} states, {} steps deep, all: {}", seen.states, seen.depth, seen.complete);
    if let Some((what, trace)) = seen.broken {
        panic!("{name}: not so: {what}\n{trace}");
    }
    assert!(seen.complete || limit == BIG, "{name}: more than {limit} states");
}

fn queue(name: &str, size: Size) {
    check(name, Protocol::new(size), SMALL);
}

fn tokens(name: &str, size: fencing::Size) {
    check(name, Fencing(size), SMALL);
}

#[test]
fn from_nothing_with_an_unanswered_request() {
    queue("begin", BEGIN);
    queue("begin, with waiters that give up", Size { leaves: true, ..BEGIN });
}

#[test]
fn with_a_waiter_in_the_queue() {
    queue("queued", QUEUED);
    queue("queued, with plain SETs", Size { grabs: true, ..QUEUED });
}

#[test]
fn with_a_place_that_is_left_to_another() {
    queue("left", LEFT);
}

#[test]
fn with_renewals() {
    queue("renewals", Size { renewals: 1, turns: false, leaves: false, ..QUEUED });
}

#[test]
fn with_three_processes() {
    queue("three", THREE);
    queue("three, one dies", Size { faults: &[Fault::Crash], leaves: false, turns: false, ..THREE });
    queue("three, the clock is set back", Size { faults: &[Fault::SetBack], ..THREE });
}

#[test]
fn with_a_process_that_dies() {
    queue("crash", Size { faults: &[Fault::Crash], ..QUEUED });
    queue("crash, from nothing", Size { faults: &[Fault::Crash], turns: false, ..BEGIN });
}

#[test]
fn with_grants_that_linger() {
    queue("lingers", LINGERS);
    queue("lingers, with a waiter", Size { lingers: true, leaves: false, ..QUEUED });
    queue("lingers, three", Size { lingers: true, leaves: false, turns: false, ..THREE });
}

#[test]
fn with_grants_that_linger_and_a_process_that_ends() {
    let size = Size { tasks: &[&[LONG], &[LONG]], ..LINGERS };
    queue("lingers, one closes", Size { closes: true, ..size.clone() });
    queue("lingers, one dies", Size { faults: &[Fault::Crash], ..size });
}

#[test]
fn with_a_server_that_forgets() {
    queue("lost data", Size { faults: &[Fault::LoseData], ..QUEUED });
    queue("lost queue", Size { faults: &[Fault::LoseQueue], ..QUEUED });
    queue("lost mark", LOST_MARK);
}

#[test]
fn with_a_process_of_another_library() {
    queue("foreign", FOREIGN);
}

#[test]
fn tokens_grow() {
    tokens("tokens", NUMBERS);
}

#[test]
fn tokens_grow_though_the_server_forgets() {
    tokens("tokens, lost data", FORGETS);
    tokens("tokens, lost data, deaths", fencing::Size { loses: true, turns: 1, end: 5, ..NUMBERS });
}

#[test]
fn tokens_grow_though_the_clock_is_set_back() {
    let set_back = SetBack::AtAnyTime;
    tokens("tokens, clock", fencing::Size { set_back, deaths: false, ..NUMBERS });
    let set_back = SetBack::BetweenGrants;
    tokens("tokens, clock, deaths", fencing::Size { set_back, grants: 3, turns: 1, ..NUMBERS });
}

#[test]
fn tokens_grow_though_the_last_one_is_not_remembered_for_ever() {
    tokens("tokens, clock, forgotten", BACK_AS_KEPT);
    tokens("tokens, clock, held for long", BACK_WHILE_HELD);
}

/// This is the limit of the rules. The store learns the numbers of a process with the next renewal or release. Two
/// faults together break the order: a holder that dies before that, and a clock that is set back to before its first
/// token.
#[test]
fn a_death_and_a_clock_set_back_are_too_much() {
    let size = fencing::Size { set_back: SetBack::AtAnyTime, back: 3, end: 8, turns: 1, ..NUMBERS };
    assert!(
        explore(&mut Fencing(size), SMALL).broken.is_some(),
        "the limit is gone, and so should be this test"
    );
}

#[test]
fn with_more_of_everything() {
    queue("overtaken", OVERTAKEN);
    tokens("tokens, asked for twice", fencing::Size { asks: 2, turns: 1, ..NUMBERS });
    // The other sizes take minutes.
    if scale() < 10 {
        return;
    }
    for (name, size) in [
        ("begin, leaves and signs", Size { leaves: true, beats: 1, ..BEGIN }),
        ("begin, two unanswered", Size { owners: 3, unanswered: 2, turns: false, ..BEGIN }),
        ("begin, crash", Size { faults: &[Fault::Crash], leaves: true, ..BEGIN }),
        ("begin, two tasks", Size { tasks: &[&[LONG, LONG], &[LONG]], ..BEGIN }),
        ("left, from short to long", Size { tasks: &[&[LONG, LONG], &[BRIEF, LONG]], beats: 2, ..LEFT }),
        ("left, turns", Size { turns: true, ..LEFT }),
        ("queued, grabs", Size { grabs: true, unanswered: 1, owners: 3, ..QUEUED }),
        ("queued, renewals and signs", Size { renewals: 1, beats: 2, ..QUEUED }),
        ("three, two tasks", Size { tasks: &[&[LONG, LONG], &[LONG], &[LONG]], owners: 2, ..THREE }),
    ] {
        check(name, Protocol::new(size), BIG);
    }
    let set_back = SetBack::AtAnyTime;
    for (name, size) in [
        ("tokens", fencing::Size { end: 7, grants: 3, asks: 2, ..NUMBERS }),
        ("tokens, lost data", fencing::Size { turns: 2, ..FORGETS }),
        ("tokens, lost data, deaths", fencing::Size { end: 7, loses: true, ..NUMBERS }),
        ("tokens, clock", fencing::Size { end: 7, deaths: false, grants: 3, set_back, ..NUMBERS }),
    ] {
        check(name, Fencing(size), BIG);
    }
}
