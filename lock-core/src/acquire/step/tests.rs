//! Tests which action follows from each event, in every state and for every kind.

use super::*;

const PAUSE: Duration = Duration::from_millis(7);
const PLACES: [Place; 5] =
    [Place::Nowhere, Place::BehindHead, Place::AtHead, Place::HeadQueued, Place::Queued];

/// Returns six sets of rules. Three are for a kind that is handed off: over a store that is polled, one with
/// heartbeats, and one that is watched. Two are for a kind in order of arrival: with heartbeats, and watched. One is
/// for several keys, with heartbeats.
fn kinds() -> [Rules; 6] {
    let polls = Rules {
        queue: Queue::Barging,
        hands_off: true,
        several: false,
        room: None,
        in_order: false,
        heartbeats: false,
    };
    let (beats, watched) =
        (Rules { in_order: true, heartbeats: true, ..polls }, Rules { in_order: true, ..polls });
    let fifo = |of| Rules { queue: Queue::Fifo, hands_off: false, room: Some(9), ..of };
    [polls, beats, watched, fifo(beats), fifo(watched), Rules { several: true, hands_off: false, ..beats }]
}

fn letter((_, action): (State, Action)) -> char {
    match action {
        Action::Begin => 'b',
        Action::Consult => 'c',
        Action::Ask(Ask::Probe) => 'P',
        Action::Ask(Ask::Try) => 'T',
        Action::Ask(Ask::Enqueue { room: None }) => 'E',
        Action::Ask(Ask::Enqueue { room: Some(9) }) => 'R',
        Action::Ask(Ask::Enqueue { .. }) => '?',
        Action::Decide => 'd',
        Action::Join(PAUSE) => 'j',
        Action::Gather(PAUSE) => 'g',
        Action::Wait(PAUSE) => 'w',
        Action::Join(_) | Action::Gather(_) | Action::Wait(_) => '?',
        Action::Finish(Decision::Fail) => 'f',
        Action::End(Decision::Fail) => 'x',
        Action::Finish(_) | Action::End(_) => '?',
    }
}

/// Each row is an event in a state. The row has a group of letters for each kind, with one letter per place of
/// [`PLACES`].
#[test]
fn what_follows_from_each_event() {
    let new = State::BEGIN;
    let fresh = State { asked: Asked::Fresh, ..new };
    let tried = State { only_tried: true, ..fresh };
    let last = State { ending: Some(Decision::Fail), ..fresh };
    let consulted = |waits, busy, was_held| Event::Consulted { waits, busy, was_held };
    let table = [
        ("begins, free", new, Event::Begins { busy: false }),
        ("begins, busy", new, Event::Begins { busy: true }),
        ("would not wait", new, consulted(false, true, true)),
        ("would wait, free", new, consulted(true, false, false)),
        ("would wait, busy", new, consulted(true, true, false)),
        ("would wait, was held", new, consulted(true, false, true)),
        ("refused", fresh, Event::Refused),
        ("refused, last", last, Event::Refused),
        ("failed", fresh, Event::Failed),
        ("failed, last", last, Event::Failed),
        ("worthless", fresh, Event::Worthless),
        ("worthless, last", last, Event::Worthless),
        ("pauses", fresh, Event::Pauses(PAUSE)),
        ("pauses, only tried", tried, Event::Pauses(PAUSE)),
        ("pauses, failing", State { failing: true, ..tried }, Event::Pauses(PAUSE)),
        ("joined", fresh, Event::Joined { asks: false, pause: PAUSE }),
        ("joined, asks", fresh, Event::Joined { asks: true, pause: PAUSE }),
        ("gathered", fresh, Event::Gathered),
        ("must ask", fresh, Event::MustAsk),
        ("pause over", fresh, Event::PauseOver),
        ("enough, never asked", new, Event::Enough(Decision::Fail)),
        ("enough, fresh", fresh, Event::Enough(Decision::Fail)),
        ("enough, stale", State { asked: Asked::Stale, ..new }, Event::Enough(Decision::Fail)),
    ];
    let row = |(name, state, event): (&str, State, Event)| {
        let cell = |kind: &Rules| {
            let letters = PLACES.map(|place| letter(next(kind, State { place, ..state }, event)));
            String::from_iter(letters)
        };
        format!("{name:20} {}", kinds().each_ref().map(cell).join(" "))
    };
    let rows: Vec<String> = table.into_iter().map(row).collect();
    assert_eq!(rows, EXPECTED, "{rows:#?}");
}

/// Each column belongs to one of the [`kinds`].
const EXPECTED: [&str; 23] = [
    "begins, free         TTTTT ccccc TTTTT ccccc ccccc TTTTT",
    "begins, busy         ccccc ccccc ccccc ccccc ccccc TTTTT",
    "would not wait       TTTTT TTTTT TTTTT TTTTT TTTTT TTTTT",
    "would wait, free     PPPPP PPPPP PPPPP RRRRR RRRRR PPPPP",
    "would wait, busy     ddddd ddddd ddddd RRRRR RRRRR ddddd",
    "would wait, was held PPPPP ddddd ddddd RRRRR RRRRR ddddd",
    "refused              ddddd ddddd ddddd ddddd ddddd ddddd",
    "refused, last        xxxxx xxxxx xxxxx xxxxx xxxxx xxxxx",
    "failed               bdddd bdddd bdddd bdddd bdddd bdddd",
    "failed, last         xxxxx xxxxx xxxxx xxxxx xxxxx xxxxx",
    "worthless            ddddd ddddd ddddd ddddd ddddd ddddd",
    "worthless, last      xxxxx xxxxx xxxxx xxxxx xxxxx xxxxx",
    "pauses               jwwwj jwwwj jwwwj wwwww wwwww ggggg",
    "pauses, only tried   jwwwj jwwwj jwwwj Rwwww Rwwww ggggg",
    "pauses, failing      jwwwj jwwwj jwwwj wwwww wwwww ggggg",
    "joined               wwwww wwwww wwwww wwwww wwwww wwwww",
    "joined, asks         EEEEE EEEEE EEEEE EEEEE EEEEE EEEEE",
    "gathered             TTTTT TTTTT TTTTT TTTTT TTTTT TTTTT",
    "must ask             TTTTT EEEEE EEEEE RRRRR RRRRR TTTTT",
    "pause over           ddddd ddddd ddddd ddddd ddddd ddddd",
    "enough, never asked  TTTTT TTTTT TTTTT TTTTT TTTTT TTTTT",
    "enough, fresh        fffff fffff fffff fffff fffff fffff",
    "enough, stale        TTTTT fffff TTTTT fffff TTTTT fffff",
];

#[test]
fn the_state_remembers_the_last_request_and_why_the_wait_ends() {
    let [_, beats, _, fifo, ..] = kinds();
    let (asked, _) =
        next(&beats, State::BEGIN, Event::Consulted { waits: true, busy: false, was_held: false });
    assert_eq!((asked.asked, asked.only_tried, asked.admitted), (Asked::Fresh, true, false));
    let (paused, _) = next(&beats, asked, Event::Joined { asks: false, pause: PAUSE });
    assert_eq!(paused.asked, Asked::Stale);
    let (queued, _) = next(&fifo, asked, Event::MustAsk);
    assert_eq!((queued.asked, queued.only_tried), (Asked::Fresh, false));
    let (admitted, _) =
        next(&beats, State::BEGIN, Event::Consulted { waits: true, busy: true, was_held: false });
    assert!(admitted.admitted && admitted.asked == Asked::Never);
    let (ending, action) = next(&fifo, State::BEGIN, Event::Enough(Decision::Skip));
    assert_eq!((ending.ending, action), (Some(Decision::Skip), Action::Ask(Ask::Try)));
    assert_eq!(next(&fifo, ending, Event::Refused).1, Action::End(Decision::Skip));
}
