//! Plans the first steps of the claims of this process that have gathered at a queue. This module performs no I/O.

use std::time::Duration;

use super::acquire::WAITER_LEASE;
use crate::backend::Mode;
use crate::backend::etcd::entering::Wanted;
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::plan::{Behind, Plan, Put, Waits};
use crate::backend::etcd::store::OPS;
use crate::backend::etcd::ttl;
use crate::backend::remote::wait_queue::WaitQueue;

/// The largest number of entries that one transaction adds. The last operation of the transaction reads the queue.
const TOGETHER: usize = OPS - 1;

/// The steps of the first gathered claims, in their order.
#[derive(Default)]
pub(super) struct Round {
    pub(super) steps: Vec<Step>,
    pub(super) behind: Behind,
    /// Whether one of the steps needs a read of the queue, because a copy does not prove the step.
    pub(super) is_unproved: bool,
}

pub(super) enum Step {
    /// The task sends this plan to the claim, and the claim continues on its own.
    Told(Result<Plan, Failure>),
    Waits(Waits),
}

impl Round {
    /// Plans the steps of gathered claims, up to the first step that depends on the answer to an earlier step. `plan`
    /// returns the step of one claim in a queue of these `modes`. The second argument of `plan` is the number of
    /// gathered claims that wait before this claim. Claims that hold the key at once request their entries themselves,
    /// concurrently. Claims that wait are added together, under one lease.
    pub(super) fn new<'a>(
        modes: Vec<Mode>,
        gathered: impl Iterator<Item = &'a Wanted>,
        plan: impl Fn(&Wanted, usize) -> Result<Plan, Failure>,
    ) -> Self {
        let (mut round, mut queue) = (Self::default(), WaitQueue::new(modes));
        let (mut admitted, mut waiting, mut lease) = (false, 0, None);
        for wanted in gathered {
            let step = match plan(wanted, waiting) {
                Ok(Plan::Put(Put { behind, waits: Some(waits) })) => {
                    let is_alike = *lease.get_or_insert(waiter_lease(wanted)) == waiter_lease(wanted);
                    if admitted || !is_alike || waiting == TOGETHER {
                        break;
                    }
                    round.behind = behind;
                    waiting += 1;
                    Step::Waits(waits)
                }
                Ok(plan @ Plan::Put(_)) => {
                    if waiting > 0 || !queue.admits(wanted.claim.mode) {
                        break;
                    }
                    queue.entries_mut().push(wanted.claim.mode);
                    admitted = true;
                    Step::Told(Ok(plan))
                }
                refused => Step::Told(refused),
            };
            round.steps.push(step);
        }
        round
    }
}

/// Returns the length of the lease under which a claim waits.
pub(super) fn waiter_lease(wanted: &Wanted) -> Duration {
    ttl::rounded_up(wanted.claim.ttl.min(WAITER_LEASE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::etcd::entering::tests::wanted;
    use crate::backend::{Attempt, Held};

    const TTL: Duration = Duration::from_secs(2);

    /// Each letter is a claim: `x` exclusive, `r` a reader, a digit a permit of a semaphore of this size. A claim with
    /// a capital letter has another lease while it waits. `-` is refused. The round covers the claims before the `|`.
    #[test]
    fn a_round_ends_where_a_step_depends_on_the_steps_before() {
        for (queue, gathered) in [
            ("", "x|x"),
            ("", "rrr|x"),
            ("", "x|r"),
            ("", "r|2"),
            ("", "22|22"),
            ("2", "2|22"),
            ("22", "222|"),
            ("x", "xrx|"),
            ("x", "xx|Xx"),
            ("r", "rr|xr"),
            ("rx", "rxr|"),
            ("x", "--x-|"),
            ("", "-x-|x"),
            ("", "|"),
        ] {
            let mode = |letter: char| match letter.to_ascii_lowercase() {
                'x' | '-' => Mode::Exclusive,
                'r' => Mode::Shared,
                number => Mode::Permit { of: number.to_digit(10).expect("a digit") },
            };
            let modes: Vec<Mode> = queue.chars().map(mode).collect();
            let letters: Vec<char> = gathered.chars().filter(|letter| *letter != '|').collect();
            let ttl = |letter: &char| if letter.is_uppercase() { TTL * 3 } else { TTL };
            let claims: Vec<_> = letters.iter().map(|letter| wanted(mode(*letter), ttl(letter))).collect();
            let plan = |wanted: &Wanted, _| {
                let at = claims.iter().position(|claim| std::ptr::eq(claim, wanted)).expect("one of them");
                if letters[at] == '-' {
                    return Ok(Plan::Refused(Attempt::Held(Held::default())));
                }
                let holds = WaitQueue::new(modes.clone()).admits(wanted.claim.mode);
                let waits = (!holds).then(|| Waits { held: Held::default(), holding: 1 });
                Ok(Plan::Put(Put { behind: None, waits }))
            };
            let round = Round::new(modes.clone(), claims.iter(), plan);
            assert_eq!(round.steps.len(), gathered.find('|').expect("a mark"), "{queue} {gathered}");
        }
    }

    #[test]
    fn a_transaction_and_a_queue_have_a_limit() {
        let claims: Vec<_> = (0..300).map(|_| wanted(Mode::Exclusive, TTL)).collect();
        let waits =
            || Ok(Plan::Put(Put { behind: None, waits: Some(Waits { held: Held::default(), holding: 1 }) }));
        let count = |round: Round| round.steps.iter().filter(|step| matches!(step, Step::Waits(_))).count();
        assert_eq!(count(Round::new(vec![Mode::Exclusive], claims.iter(), |_, _| waits())), TOGETHER);
        let has_room = |_: &Wanted, beside| match beside {
            0..5 => waits(),
            _ => Ok(Plan::Refused(Attempt::Held(Held::default()))),
        };
        let round = Round::new(vec![Mode::Exclusive], claims.iter(), has_room);
        assert_eq!((round.steps.len(), count(round)), (300, 5), "those before it take the room");
    }
}
