//! Counts the votes of the nodes, and computes the verdict. All functions are pure.
//!
//! The safety of a quorum depends on one fact: any two majorities have a node in common, and this node refuses one of
//! two conflicting claims. So the verdict `Won` always needs the grants of more than half of the nodes.

/// The vote of one node on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Granted,
    Held,
    /// An error that a retry cannot fix. For example, the key is in use in another mode, or the password is wrong.
    Refused,
    /// No answer in time, or a temporary error, which means neither yes nor no.
    Unavailable,
}

/// The number of votes of each kind. The remaining nodes have not answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    nodes: usize,
    granted: usize,
    held: usize,
    refused: usize,
    unavailable: usize,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Won,
    Lost(Why),
    /// More answers are needed.
    Open,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A majority answered, and some of these nodes reported another owner.
    Contended,
    /// Fewer nodes than a majority answered yes or no.
    NoQuorum,
    /// Too many nodes refuse permanently: the other nodes are not a majority.
    Refused,
}

/// Returns the smallest number that is more than half of `nodes`.
pub(super) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Returns how many nodes may fail while a majority is left.
pub(super) const fn max_failures(nodes: usize) -> usize {
    nodes - majority(nodes)
}

impl Tally {
    pub(super) fn new(nodes: usize, votes: impl IntoIterator<Item = Vote>) -> Self {
        let mut tally = Self { nodes, ..Self::default() };
        for vote in votes {
            match vote {
                Vote::Granted => tally.granted += 1,
                Vote::Held => tally.held += 1,
                Vote::Refused => tally.refused += 1,
                Vote::Unavailable => tally.unavailable += 1,
            }
        }
        tally
    }

    fn pending(self) -> usize {
        self.nodes - self.granted - self.held - self.refused - self.unavailable
    }

    /// Returns the verdict. The verdict is `Open` while a further answer can change it, so the order of the answers
    /// does not matter.
    pub(super) fn verdict(self) -> Verdict {
        let (need, spare, pending) = (majority(self.nodes), max_failures(self.nodes), self.pending());
        let said = self.granted + self.held;
        if self.granted >= need {
            Verdict::Won
        } else if self.granted + pending >= need {
            // A majority of grants is still possible.
            Verdict::Open
        // Refusals are checked before contention: if they leave no majority, no retry can win, and the caller must not
        // wait.
        } else if self.refused > spare {
            Verdict::Lost(Why::Refused)
        } else if said >= need {
            Verdict::Lost(Why::Contended)
        } else if said + pending < need && self.refused + pending <= spare {
            Verdict::Lost(Why::NoQuorum)
        } else {
            // The attempt is certainly lost, but a pending answer may still change the reason.
            Verdict::Open
        }
    }
}

/// The outcome of a renewal, or of another request of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// A majority has the grant.
    Yes,
    /// Too many nodes do not have the grant, so the others are not a majority.
    No,
    /// Neither `Yes` nor `No`, and no answer is pending.
    Unknown,
    Open,
}

/// Returns the verdict on a grant: `yes` nodes have it, `no` nodes do not have it, and `pending` nodes have not
/// answered.
pub(super) const fn renewal_verdict(nodes: usize, yes: usize, no: usize, pending: usize) -> Kept {
    if yes >= majority(nodes) {
        Kept::Yes
    // The other nodes are not a majority, even if all of them have the grant.
    } else if no > max_failures(nodes) {
        Kept::No
    } else if pending == 0 {
        Kept::Unknown
    } else {
        Kept::Open
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenBack {
    Released,
    Expired,
    Taken,
    /// Fewer nodes than a majority answered: the grant may still exist.
    Unknown,
    Open,
}

/// The number of answers of each kind to a release.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Releases {
    pub(super) nodes: usize,
    pub(super) released: usize,
    pub(super) expired: usize,
    pub(super) taken: usize,
    pub(super) failed: usize,
}

impl Releases {
    /// Returns the verdict. After a majority has answered the release, the next owner can get a majority. Silent nodes
    /// may keep the grant until its lease ends, but this blocks no owner.
    pub(super) fn verdict(self) -> GivenBack {
        let need = majority(self.nodes);
        let answered = self.released + self.expired + self.taken;
        for (count, verdict) in [
            (self.released, GivenBack::Released),
            (self.taken, GivenBack::Taken),
            (self.expired, GivenBack::Expired),
        ] {
            if count >= need {
                return verdict;
            }
        }
        if answered + self.failed < self.nodes {
            return GivenBack::Open;
        }
        match () {
            () if answered < need => GivenBack::Unknown,
            // If the failed nodes executed the release with the same result, there is a majority for that result.
            () if self.released > 0 && self.released + self.failed >= need => GivenBack::Released,
            () if self.taken > 0 && self.taken + self.failed >= need => GivenBack::Taken,
            // When the release arrived, at most a minority can have had the grant, so the grant had already ended.
            () => GivenBack::Expired,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses votes: `g`ranted, `h`eld, `r`efused, `u`navailable. Any other letter means no vote yet.
    fn parse(text: &str) -> Verdict {
        let votes = text.chars().filter_map(|letter| match letter {
            'g' => Some(Vote::Granted),
            'h' => Some(Vote::Held),
            'r' => Some(Vote::Refused),
            'u' => Some(Vote::Unavailable),
            _ => None,
        });
        Tally::new(text.len(), votes).verdict()
    }

    #[test]
    fn verdicts() {
        use Verdict::{Lost, Open, Won};
        use Why::{Contended, NoQuorum, Refused};
        let table = [
            (Open, "... ..... g.. h.. u.. r.. gh. gu. gr. gg... ggh.. gghh. hh... gu... gguu. gghu."),
            (Won, "g gg. ggh ggu ggr ggg gg.gh ggg.. gggrr ggguu ggghh"),
            (Lost(Contended), "h hh. ghh hhh ghu uhg hhu hhr ghr hhh.. gghhh gghhu gghhr gghur ghhuu ghhru"),
            (Lost(NoQuorum), "u uu. uuu guu huu uuh uur gru uuu.. gguuu ghuuu ghuur hhuru"),
            (Lost(Refused), "r rr. rrr grr hrr urr rrr.. ggrrr hhrrr ghrrr"),
            // These attempts are certainly lost, but the reason is still open.
            (Open, "hu. ur. hhu.. huu.. ruu.. rru.. hr. hru.."),
        ];
        for (expected, cases) in table {
            for case in cases.split(' ') {
                assert_eq!(parse(case), expected, "{case}");
            }
        }
    }

    fn votes(nodes: usize) -> impl Strategy<Value = Vec<Vote>> {
        let vote = prop::sample::select(vec![Vote::Granted, Vote::Held, Vote::Refused, Vote::Unavailable]);
        prop::collection::vec(vote, nodes)
    }

    fn elections() -> impl Strategy<Value = Vec<Vote>> {
        prop::sample::select(vec![1_usize, 3, 5, 7, 9]).prop_flat_map(votes)
    }

    proptest! {
        /// The set of all answers has a verdict. In every order of the answers, the first verdict of a prefix is the
        /// same verdict.
        #[test]
        fn the_order_of_the_answers_does_not_matter(votes in elections(), seed in any::<u64>()) {
            let nodes = votes.len();
            let last = Tally::new(nodes, votes.iter().copied()).verdict();
            prop_assert_ne!(last, Verdict::Open);
            let mut shuffled = votes;
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            for count in 0..=nodes {
                let early = Tally::new(nodes, shuffled[..count].iter().copied()).verdict();
                prop_assert!(early == Verdict::Open || early == last, "{early:?} after {count}, then {last:?}");
            }
        }

        /// However the nodes are divided between two owners, at most one owner wins.
        #[test]
        fn two_never_win(owners in elections(), late in 0_usize..9) {
            let nodes = owners.len();
            let other = |vote: &Vote| match vote {
                Vote::Granted => Vote::Held,
                Vote::Held => Vote::Granted,
                same => *same,
            };
            let seen = late.min(nodes);
            let first = Tally::new(nodes, owners.iter().copied()).verdict();
            let second = Tally::new(nodes, owners[..seen].iter().map(other)).verdict();
            prop_assert!(first != Verdict::Won || second != Verdict::Won);
            // A negative control: if half of the nodes were enough, two owners could each win one half of an even
            // number of nodes.
            let half = |wins: Vote| owners.iter().filter(|vote| **vote == wins).count() >= nodes.div_ceil(2);
            prop_assert!(!(half(Vote::Granted) && half(Vote::Held)) || nodes.is_multiple_of(2));
        }

        /// A grant is never both kept and lost.
        #[test]
        fn a_grant_is_kept_by_a_majority(nodes in prop::sample::select(vec![1_usize, 3, 5, 7]), yes in 0_usize..8, no in 0_usize..8) {
            prop_assume!(yes + no <= nodes);
            let pending = nodes - yes - no;
            match renewal_verdict(nodes, yes, no, pending) {
                Kept::Yes => prop_assert!(yes > nodes / 2),
                Kept::No => prop_assert!(yes + pending <= nodes / 2),
                Kept::Unknown => prop_assert_eq!(pending, 0),
                Kept::Open => prop_assert!(pending > 0),
            }
        }
    }

    #[test]
    fn half_of_an_even_number_would_let_two_win() {
        // An even number of nodes is refused elsewhere, because it survives no more failures than one node fewer. This
        // test shows that half of the nodes is not enough: two of four nodes voted for each owner.
        let split = [Vote::Granted, Vote::Granted, Vote::Held, Vote::Held];
        assert_eq!(Tally::new(4, split).verdict(), Verdict::Lost(Why::Contended));
        assert_eq!((majority(4), max_failures(4), majority(5), max_failures(5)), (3, 1, 3, 2));
    }

    #[test]
    fn releases() {
        // Columns: (released, expired, taken, failed, nodes), verdict.
        let table = [
            ((2, 0, 0, 0, 3), GivenBack::Released),
            ((1, 0, 0, 0, 3), GivenBack::Open),
            ((0, 0, 2, 0, 3), GivenBack::Taken),
            ((0, 2, 0, 0, 3), GivenBack::Expired),
            ((1, 2, 0, 0, 3), GivenBack::Expired),
            ((1, 1, 0, 0, 3), GivenBack::Open),
            ((1, 1, 1, 0, 3), GivenBack::Expired),
            ((1, 1, 0, 1, 3), GivenBack::Released),
            ((0, 1, 1, 1, 3), GivenBack::Taken),
            ((1, 0, 0, 2, 3), GivenBack::Unknown),
            ((0, 0, 0, 3, 3), GivenBack::Unknown),
            ((2, 0, 0, 3, 5), GivenBack::Unknown),
            ((2, 1, 0, 2, 5), GivenBack::Released),
            ((1, 2, 0, 2, 5), GivenBack::Released),
            ((1, 2, 1, 1, 5), GivenBack::Expired),
        ];
        for ((released, expired, taken, failed, nodes), expected) in table {
            let all = Releases { nodes, released, expired, taken, failed };
            assert_eq!(all.verdict(), expected, "{all:?}");
        }
    }
}
