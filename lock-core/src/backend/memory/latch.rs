//! A count-down latch. Each call gets the current time as an argument.

use std::collections::HashSet;
use std::time::Duration;

use crate::backend::{LatchState, LatchStep};
use crate::clock::Moment;
use crate::owner::Owner;

#[derive(Debug)]
pub(super) struct Latch {
    count: u32,
    setter: Owner,
    counted: HashSet<Owner>,
    /// The processes to notify when the latch opens.
    waiting: Vec<u128>,
    deadline: Moment,
}

impl Latch {
    /// Returns the latch after its first step. Returns `None` for a step other than [`LatchStep::Set`].
    pub(super) fn new(step: &LatchStep, now: Moment) -> Option<Self> {
        let LatchStep::Set { count, owner, ttl } = *step else { return None };
        let deadline = now.plus(ttl);
        Some(Self { count, setter: owner, counted: HashSet::new(), waiting: Vec::new(), deadline })
    }

    pub(super) fn is_past(&self, now: Moment) -> bool {
        self.deadline.is_past(now)
    }

    /// Performs a step. Returns the state of the latch after the step, and the processes to notify if the latch is
    /// open.
    pub(super) fn step(&mut self, step: &LatchStep, now: Moment) -> (LatchState, Vec<u128>) {
        let by_us = match *step {
            LatchStep::Set { owner, ttl, .. } => {
                self.extend(ttl, now);
                owner == self.setter
            }
            LatchStep::CountDown { owner, ttl } => {
                self.extend(ttl, now);
                if self.left() > 0 {
                    self.counted.insert(owner);
                }
                owner == self.setter
            }
            LatchStep::Wait { process, ttl } => {
                self.extend(ttl, now);
                // If the latch is already open, the process gets the state as the answer and needs no notification.
                if self.left() > 0 && !self.waiting.contains(&process) {
                    self.waiting.push(process);
                }
                false
            }
            LatchStep::Look => false,
        };
        let left = self.left();
        let told = if left == 0 { std::mem::take(&mut self.waiting) } else { Vec::new() };
        (LatchState::Set { left, by_us, sent: now }, told)
    }

    fn left(&self) -> u32 {
        self.count.saturating_sub(u32::try_from(self.counted.len()).unwrap_or(u32::MAX))
    }

    fn extend(&mut self, ttl: Duration, now: Moment) {
        if ttl > self.deadline.remaining(now) {
            self.deadline = now.plus(ttl);
        }
    }
}
