//! Checks a voter for `doctor`: its server, its clock against the other voters, its replicas, and a machine that
//! several voters share.

use super::backend::Voter;
use crate::backend::redis::doctor::{Kind, findings};
use crate::backend::{Finding, Severity};
use crate::error::Result;

/// The facts about a voter in relation to the other voters.
#[derive(Clone, Debug, Default)]
struct Among {
    replicas: usize,
    /// How far the clock certainly differs from the median of the voters, in us; `None` if fewer than three clocks are
    /// known.
    beside: Option<i64>,
    /// The machine of the server, the number of voters on this machine, and the number of all voters.
    machine: Option<(String, usize, usize)>,
}

impl Voter {
    pub(super) async fn findings(&self) -> Result<Vec<Finding>> {
        let mut facts = self.server.facts(Kind::Voter).await?;
        let (observed, peers) = (self.state().observed(), self.state().peers());
        let beside = peers.and_then(|peers| peers.beside(observed.reading()?));
        if beside.is_some() {
            // The voters' clocks are compared with each other, so the clock of this machine does not matter.
            facts.ahead = 0;
        }
        let machine = peers.zip(observed.machine()).map(|(peers, machine)| {
            let (here, all) = peers.count_on(machine);
            (machine.to_owned(), here, all)
        });
        let among = Among { replicas: facts.replicas().len(), beside, machine };
        Ok(findings(&facts).into_iter().chain(of_voter(&among)).collect())
    }
}

fn of_voter(among: &Among) -> Vec<Finding> {
    [replicas(among), clock(among), one_machine(among)].into_iter().flatten().collect()
}

fn replicas(among: &Among) -> Option<Finding> {
    let count = among.replicas;
    if count == 0 {
        return None;
    }
    let found = format!(
        "the voter has {count} replicas: one that replaces it, at its address or beside it, lacks locks, and two servers may \
         use one vote"
    );
    let advice = "stop each replica: the majority has the copies of a lock";
    Some(Finding::new(Severity::Warning, "redlock.replicas", found, advice))
}

fn clock(among: &Among) -> Option<Finding> {
    let beside = among.beside.filter(|beside| *beside != 0)?;
    let side = if beside > 0 { "ahead of" } else { "behind" };
    let found = format!(
        "the clock of the voter is {} ms {side} the others': a client that connects does not count its vote for the longest \
         lease, and fencing tokens may become smaller when it forgets the last one",
        beside.unsigned_abs() / 1_000
    );
    let advice = "keep the clocks of all voters together: `timedatectl set-ntp true`";
    Some(Finding::new(Severity::Warning, "redlock.clock", found, advice))
}

fn one_machine(among: &Among) -> Option<Finding> {
    let (machine, here, all) = among.machine.as_ref()?;
    if *here < 2 {
        return None;
    }
    let (left, needed) = (all - here, all / 2 + 1);
    let (severity, then) = if left >= needed {
        (Severity::Note, "the others are still a majority")
    } else {
        (Severity::Warning, "no lock can be taken then")
    };
    let found = format!(
        "{here} of {all} voters are on one machine ({machine}): its failure leaves {left}, and {needed} are needed: {then}"
    );
    let advice = "put each voter on a machine of its own, with a disk and a power supply of its own";
    Some(Finding::new(severity, "redlock.one_machine", found, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_fact_that_makes_it() {
        let of = |replicas, beside, machine: Option<(usize, usize)>| {
            let machine = machine.map(|(here, all)| ("h".to_owned(), here, all));
            of_voter(&Among { replicas, beside, machine })
        };
        let table = [
            (of(0, None, None), None),
            (of(0, Some(0), Some((1, 3))), None),
            (of(2, Some(0), Some((1, 3))), Some(("redlock.replicas", Severity::Warning))),
            (of(0, Some(-51_000), None), Some(("redlock.clock", Severity::Warning))),
            (of(0, Some(51_000), None), Some(("redlock.clock", Severity::Warning))),
            (of(0, None, Some((2, 3))), Some(("redlock.one_machine", Severity::Warning))),
            (of(0, None, Some((3, 3))), Some(("redlock.one_machine", Severity::Warning))),
            (of(0, None, Some((2, 5))), Some(("redlock.one_machine", Severity::Note))),
        ];
        for (findings, expected) in table {
            let shown: Vec<_> = findings.iter().map(|one| (one.rule, one.severity)).collect();
            assert_eq!(shown, expected.into_iter().collect::<Vec<_>>(), "{findings:?}");
        }
        assert!(of(0, Some(-51_000), None)[0].found.contains("51 ms behind the others'"));
    }
}
