//! Rules about the sentinels of a primary, and the doctor of a store with one server.

use super::{Facts, Kind, findings, of_all};
use crate::backend::redis::command::Server;
use crate::backend::redis::config::Address;
use crate::backend::redis::link::{SentinelAnswer, sentinel_views};
use crate::backend::{Finding, Severity};
use crate::error::Result;

/// The smallest number of sentinels that still have a majority if one of them fails.
const ENOUGH: u64 = 3;

impl Server {
    /// Returns the findings about the one server of a store, and about its sentinels.
    pub(crate) async fn doctor(&self) -> Result<Vec<Finding>> {
        let shared = self.shared();
        let Address::Sentinel(sentinels) = shared.address() else {
            return Ok(findings(&self.facts(Kind::Single).await?));
        };
        let views = sentinel_views(&shared.config, shared.tls(), sentinels);
        let (facts, views): (Result<Facts>, _) = tokio::join!(self.facts(Kind::Watched), views);
        let user = shared.config.sentinel_user();
        let mut all = findings(&facts?);
        all.extend(of_sentinels(&views, &sentinels.master, user));
        Ok(all)
    }
}

/// What a sentinel reports: see [`sentinel_views`].
type View = std::result::Result<(u64, u64), SentinelAnswer>;

/// Returns the findings about the sentinels. `views` contains the name and the view of each sentinel.
fn of_sentinels(views: &[(String, View)], master: &str, user: &str) -> Vec<Finding> {
    // Uses the largest number, because a sentinel that has not found all others yet reports a smaller number. Sentinels
    // that no longer exist are still counted.
    let all = views.iter().filter_map(|(_, view)| view.as_ref().ok()).map(|(others, _)| others + 1).max();
    let few = all.filter(|all| *all < ENOUGH).map(|all| {
        let found = format!("{all} sentinels watch the primary: without one of them there is no majority, and no failover");
        let advice = format!(
            "run 3 sentinels on 3 machines: `sentinel monitor {master} <host> <port> 2` in the sentinel.conf of each"
        );
        Finding::new(Severity::Warning, "redis.sentinels", found, advice)
    });
    let each = views.iter().filter_map(|(place, view)| {
        let finding = match view {
            Ok((_, quorum)) => of_quorum(*quorum, all?, master)?,
            Err(SentinelAnswer::Refused(code)) => refused(code, user),
            Err(SentinelAnswer::Silent(why) | SentinelAnswer::Unusable(why)) => Finding::new(
                Severity::Warning,
                "redis.sentinel_down",
                format!("the sentinel does not answer: {why}"),
                "start it, or remove it from the URL; a failover needs a majority of the sentinels",
            ),
            // No answer to this request.
            Err(SentinelAnswer::Primary(..) | SentinelAnswer::Unknown(_)) => return None,
        };
        Some((place.clone(), vec![finding]))
    });
    few.into_iter().chain(of_all(each)).collect()
}

fn of_quorum(quorum: u64, all: u64, master: &str) -> Option<Finding> {
    let majority = all / 2 + 1;
    let why = if quorum < majority {
        "a minority that does not reach the primary may begin a failover, which loses locks"
    } else if quorum > all {
        "no failover can begin"
    } else {
        return None;
    };
    let found = format!("the quorum is {quorum} of {all} sentinels: {why}");
    let advice = format!("`SENTINEL SET {master} quorum {majority}` on every sentinel");
    Some(Finding::new(Severity::Warning, "redis.sentinel_quorum", found, advice))
}

fn refused(code: &str, user: &str) -> Finding {
    let found = format!(
        "the user `{user}` may not run `SENTINEL MASTER` ({code}), so nothing was said about the quorum"
    );
    let advice = format!(
        "on every sentinel: `ACL SETUSER {user} +sentinel|master`, and `ACL SAVE` if there is an aclfile"
    );
    Finding::new(Severity::Note, "redis.unread", found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_are_judged_together() {
        let watches = |others, quorum| Ok((others, quorum));
        let silent = Err(SentinelAnswer::Silent("gone".to_owned()));
        let refused: View = Err(SentinelAnswer::Refused("NOPERM".to_owned()));
        let table: [(Vec<View>, &[(&str, &str)]); 9] = [
            (vec![watches(2, 2), watches(2, 2), watches(2, 2)], &[]),
            (vec![watches(2, 3)], &[]),
            // A sentinel that was just started has not found the others yet.
            (vec![watches(0, 2), watches(2, 2)], &[]),
            (vec![watches(1, 2), watches(1, 2)], &[("redis.sentinels", "")]),
            (vec![watches(2, 1), watches(2, 2), watches(2, 1)], &[("redis.sentinel_quorum", "s0, s2")]),
            (vec![watches(4, 2)], &[("redis.sentinel_quorum", "s0")]),
            (vec![watches(2, 4)], &[("redis.sentinel_quorum", "s0")]),
            (vec![watches(2, 2), silent], &[("redis.sentinel_down", "s1")]),
            (vec![refused.clone(), refused], &[("redis.unread", "s0, s1")]),
        ];
        for (views, expected) in table {
            let named: Vec<_> =
                views.into_iter().enumerate().map(|(at, view)| (format!("s{at}"), view)).collect();
            let found = of_sentinels(&named, "m", "asker");
            let shown: Vec<_> = found.iter().map(|one| (one.rule, one.about.as_str())).collect();
            assert_eq!(shown, expected, "{named:?}");
        }
        let found = of_sentinels(&[("s".to_owned(), watches(4, 2))], "m", "");
        assert_eq!(found[0].advice, "`SENTINEL SET m quorum 3` on every sentinel");
    }
}
