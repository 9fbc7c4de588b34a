//! The rules that turn facts into findings.

use zookeeper_client::{Acl, Permission};

use super::facts::{Ensemble, Facts, Limits, Quota};
use crate::backend::zookeeper::config::Auth;
use crate::backend::{Finding, Severity};

/// The largest number of keys that is not reported.
pub(super) const CHILDREN: i32 = 10_000;
/// The percentage of a hard quota above which the finding is a warning.
pub(super) const FULL: i64 = 80;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all: Vec<Finding> = facts.silent.iter().map(|(server, why)| silent(server, why)).collect();
    if let Some(ensemble) = &facts.ensemble {
        all.extend([number(ensemble), unnamed(facts, ensemble)].into_iter().flatten());
    }
    all.extend(
        [session_timeout(facts), timeout(facts), open_base(facts), children(facts)].into_iter().flatten(),
    );
    for quota in &facts.quotas {
        let limits = [limit(quota, "nodes", &quota.nodes), limit(quota, "bytes", &quota.bytes)];
        all.extend(limits.into_iter().flatten());
    }
    all.extend([access(facts), unread(facts)].into_iter().flatten());
    all
}

fn silent(server: &str, why: &str) -> Finding {
    let found = format!("it does not answer ({why})");
    let advice =
        "start it, or leave it out of the URL if it is gone for good; locks need a majority of the servers";
    Finding::new(Severity::Warning, "zookeeper.silent", found, advice).about(server)
}

fn number(ensemble: &Ensemble) -> Option<Finding> {
    let add = "the same lines `server.<number>=<host>:2888:3888` in the `zoo.cfg` of every server, and its number in its \
               `myid`; new servers are empty, so start them beside a majority of the old ones, never without";
    let (rule, severity, found, advice) = match ensemble.voters {
        0 | 1 => (
            "zookeeper.one_server",
            Severity::Warning,
            "there is one server with a vote: while it is down no lock is granted, and its disk has the only copy of the \
             locks"
                .to_owned(),
            format!("run three: {add}"),
        ),
        // With groups or weights, a majority is counted in another way.
        _ if !ensemble.is_plain => return None,
        2 => (
            "zookeeper.even_servers",
            Severity::Warning,
            "there are 2 servers with a vote: while either is down no lock is granted".to_owned(),
            format!("add one: {add}"),
        ),
        even if even % 2 == 0 => (
            "zookeeper.even_servers",
            Severity::Note,
            format!("there are {even} servers with a vote, which survive no more losses than {} would", even - 1),
            format!("add one: {add}; or make one an observer, `server.<number>=<host>:2888:3888:observer`"),
        ),
        _ => return None,
    };
    Some(Finding::new(severity, rule, found, advice))
}

fn unnamed(facts: &Facts, ensemble: &Ensemble) -> Option<Finding> {
    let (addresses, all) = (facts.addresses, ensemble.voters);
    let found = format!(
        "the URL leads to {addresses} of {all} servers: without those this process has no locks, however many others work"
    );
    let advice = format!("name all servers in the URL, `{},<host>:<port>`", facts.config.hosts());
    (addresses < all).then(|| Finding::new(Severity::Note, "zookeeper.unnamed", found, advice))
}

fn session_timeout(facts: &Facts) -> Option<Finding> {
    let session = facts.config.session_timeout;
    let (asked, given) = (session.as_millis(), facts.given.as_millis());
    if asked == given {
        return None;
    }
    let gave = format!("the servers give sessions of {:?}, and the URL asks for {session:?}", facts.given);
    let (severity, found, setting) = if given < asked {
        let lost = facts.given / 2;
        (Severity::Warning, format!("{gave}: an outage of {lost:?} ends every lock"), "maxSessionTimeout")
    } else {
        let found = format!("{gave}: no ttl is shorter, and a crash costs as much");
        (Severity::Note, found, "minSessionTimeout")
    };
    let advice = format!(
        "`{setting}={asked}` in the `zoo.cfg` of every server, or `?session_timeout={given}ms` in the URL"
    );
    Some(Finding::new(severity, "zookeeper.session_timeout", found, advice))
}

fn timeout(facts: &Facts) -> Option<Finding> {
    let half = facts.given / 2;
    let found = format!(
        "a call ends after {:?}, and a silent server may be left after {half:?}: a `fair` waiter may lose its place then",
        facts.config.timeout
    );
    let advice = format!("`?timeout={}ms` in the URL", half.as_millis());
    (facts.config.timeout < half).then(|| Finding::new(Severity::Note, "zookeeper.timeout", found, advice))
}

fn open_base(facts: &Facts) -> Option<Finding> {
    facts.config.credentials.as_ref()?;
    let risky = Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    let of_all = |acl: &&Acl| acl.scheme() == "world" && acl.id() == "anyone";
    let open = facts.acl.iter().filter(of_all).map(|acl| acl.permission() & risky);
    let open = open.fold(Permission::NONE, |all, one| all | one);
    let base = &facts.config.base;
    let found = format!(
        "the URL names a user, and all users have {open} on {base}: another user can make the directory of a key, and \
         then delete its locks"
    );
    let advice = match facts.config.auth {
        Auth::Digest => {
            format!("in `zkCli.sh`, `addauth digest <user>:<password>`, then `setAcl -R {base} auth::cdrwa`")
        }
        Auth::Sasl => format!("in `zkCli.sh` of that user, `setAcl -R {base} sasl:<user>:cdrwa`"),
    };
    (open != Permission::NONE)
        .then(|| Finding::new(Severity::Warning, "zookeeper.open_base", found, advice).about(base))
}

fn children(facts: &Facts) -> Option<Finding> {
    let (count, base) = (facts.children, &facts.config.base);
    let found = format!(
        "{base} has {count} directories of keys: a list of all locks asks for each, and its names must fit into one answer"
    );
    let advice = "use fewer keys at a time, or several paths; the servers delete what is unused, \
                  `-Dznode.container.checkIntervalMs=10000`";
    (count > CHILDREN).then(|| Finding::new(Severity::Note, "zookeeper.children", found, advice).about(base))
}

fn limit(quota: &Quota, what: &str, limits: &Limits) -> Option<Finding> {
    let Limits { used, soft, hard } = *limits;
    let path = &quota.path;
    let (severity, found) = match (hard, soft) {
        (Some(hard), _) => {
            let is_full = used.saturating_mul(100) > hard.saturating_mul(FULL);
            let found = format!(
                "its quota is {hard} {what}, and {used} are used: at the limit no lock is granted, if the servers enforce \
                 quotas (`zookeeper.enforceQuota`)"
            );
            (if is_full { Severity::Warning } else { Severity::Note }, found)
        }
        (None, Some(soft)) => {
            let found =
                format!("its quota is {soft} {what}, and {used} are used: beyond it the servers only log");
            (Severity::Note, found)
        }
        (None, None) => return None,
    };
    let advice = format!("in `zkCli.sh`, `delquota {path}`, or a larger one with `setquota`");
    Some(Finding::new(severity, "zookeeper.quota", found, advice).about(path))
}

fn access(facts: &Facts) -> Option<Finding> {
    let (rule, found, advice) = match (&facts.config.credentials, &facts.config.files) {
        (None, _) => (
            "zookeeper.no_user",
            "the URL names no user, so any client may delete any lock",
            "name one, `zookeeper://<user>:<password>@<host>`, in all programs that share the locks",
        ),
        (Some(_), None) => (
            "zookeeper.plain_text",
            match facts.config.auth {
                Auth::Digest => "the password of the URL crosses the network in plain text",
                Auth::Sasl => {
                    "the locks cross the network in plain text, and so does a hash from which a weak password can be guessed"
                }
            },
            "set a `secureClientPort` on the servers, and use `zookeepers://`",
        ),
        (Some(_), Some(_)) => return None,
    };
    Some(Finding::new(Severity::Note, rule, found, advice))
}

fn unread(facts: &Facts) -> Option<Finding> {
    let paths = facts.unread.join(", ");
    // `setAcl` replaces the whole list, so the advice repeats the present entries.
    let acls: Vec<_> = facts
        .unread
        .iter()
        .map(|path| format!("`getAcl {path}`, then `setAcl {path} <all that it printed>,world:anyone:r`"))
        .collect();
    let advice = format!(
        "in `zkCli.sh` of a user with the right `admin` there (below /zookeeper, the superuser alone), {}",
        acls.join("; ")
    );
    let found = format!("this user may not read {paths}: the right `read` is missing");
    (!acls.is_empty()).then(|| Finding::new(Severity::Note, "zookeeper.unread", found, advice))
}
