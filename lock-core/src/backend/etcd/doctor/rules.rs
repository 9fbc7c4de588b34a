//! The rules that turn facts into findings.

use super::cluster;
use super::facts::{Answer, Facts, List, Member};
use crate::backend::etcd::proto::{AlarmMember, StatusResponse};
use crate::backend::{Finding, Severity};

/// The quota of a member that was started without `--quota-backend-bytes`.
pub(super) const DEFAULT_QUOTA: i64 = 2 << 30;
/// The percentage of the quota above which the size is reported.
pub(super) const FULL: i64 = 80;
/// The smallest free space in a database file that is reported.
pub(super) const FREE: i64 = 64 << 20;
/// The number of log entries that a member may have committed but not applied. Beyond this number, etcd refuses
/// requests.
pub(super) const BEHIND: u64 = 5_000;
/// The largest number of leases that is not reported.
pub(super) const LEASES: usize = 10_000;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = alarms(facts);
    for (member, state) in facts.states() {
        let of_member =
            [size(facts, state), free_space(member, state), no_leader(member, state), lagging(facts, state)];
        all.extend(of_member.into_iter().flatten().map(|finding| finding.about(&member.name)));
    }
    all.extend(cluster::findings(facts));
    all.extend([leases(facts), access(facts), proxied(facts), unread(facts)].into_iter().flatten());
    all
}

fn alarms(facts: &Facts) -> Vec<Finding> {
    let finding = |alarm: &AlarmMember| {
        let id = alarm.member_id;
        let finding = match alarm.alarm {
            AlarmMember::NOSPACE => {
                let found = "its database is full (alarm NOSPACE), and the cluster grants no lock";
                let advice = format!(
                    "{} && etcdctl alarm disarm`; if that frees too little, start the members with a larger \
                     `--quota-backend-bytes`",
                    frees(facts)
                );
                Finding::new(Severity::Danger, "etcd.nospace", found, advice)
            }
            AlarmMember::CORRUPT => {
                let found = "its data differ from those of the others (alarm CORRUPT), and the cluster grants no lock";
                Finding::new(Severity::Danger, "etcd.corrupt", found, replaces(facts, id))
            }
            _ => return None,
        };
        Some(finding.about(facts.name_of(id)))
    };
    facts.alarms.iter().flatten().filter_map(finding).collect()
}

/// Returns the beginning of a command that frees the space of old revisions. The caller completes the command and
/// closes its backtick. The command continues if the revision is already compacted.
fn frees(facts: &Facts) -> String {
    let revision = match facts.revision() {
        0 => "<revision of `etcdctl endpoint status -w json`>".to_owned(),
        revision => revision.to_string(),
    };
    format!("`etcdctl compact {revision} --physical; etcdctl --command-timeout=10m defrag --cluster")
}

/// Returns the advice that replaces the data of a member: with the data of the other members, or with a backup if there
/// is no other member.
fn replaces(facts: &Facts, id: u64) -> String {
    if facts.list == List::Whole && facts.voters().count() < 2 {
        return "restore a backup, `etcdutl snapshot restore <file> --data-dir <new>` (before 3.5 `etcdctl`); its fencing tokens \
                begin again where the backup was made"
            .to_owned();
    }
    let known = facts.members.iter().find(|member| member.id == id);
    let peer = known.map(|member| member.peer.as_str()).filter(|peer| !peer.is_empty()).unwrap_or("<url>");
    format!(
        "`etcdctl member remove {id:x}`, empty its data directory, `etcdctl member add <name> --peer-urls={peer}`, \
         start it with `--initial-cluster-state=existing`, then `etcdctl alarm disarm`"
    )
}

fn size(facts: &Facts, state: &StatusResponse) -> Option<Finding> {
    let is_known = state.db_size_quota != 0;
    let quota = if is_known { state.db_size_quota } else { DEFAULT_QUOTA };
    let percent = state.db_size.saturating_mul(100).checked_div(quota).filter(|_| quota > 0)?;
    let (size, whole) = (mib(state.db_size), mib(quota));
    if !is_known && percent > 100 {
        // The database is larger than the default quota. A member with that quota would have raised an alarm, so this
        // member's quota is larger.
        let found = format!("its database has {size}, and this version does not tell its quota");
        let advice = "compare that with its `--quota-backend-bytes`: at the quota the cluster grants no lock";
        return Some(Finding::new(Severity::Note, "etcd.size", found, advice));
    }
    let of = match is_known {
        true => format!("its quota of {whole}"),
        false => format!("the {whole} that are the default quota (this version does not tell its own)"),
    };
    let found =
        format!("its database has {size}, {percent} % of {of}; at the quota the cluster grants no lock");
    let advice = format!(
        "{}` (each member answers nothing meanwhile), and start the members with `--auto-compaction-mode=periodic --auto-compaction-retention=10m`, or with a \
         larger `--quota-backend-bytes`",
        frees(facts)
    );
    (percent > FULL).then(|| Finding::new(Severity::Warning, "etcd.size", found, advice))
}

fn free_space(member: &Member, state: &StatusResponse) -> Option<Finding> {
    let (size, used) = (state.db_size, state.db_size_in_use);
    // Versions before 3.4 report 0.
    let is_much = used > 0 && size - used >= FREE && used < size / 2;
    let found = format!(
        "its database file has {}, of which {} are in use; all of it counts for the quota",
        mib(size),
        mib(used)
    );
    let advice = format!("`etcdctl --endpoints={} defrag`: it answers nothing meanwhile", member.name);
    is_much.then(|| Finding::new(Severity::Note, "etcd.free_space", found, advice))
}

fn no_leader(member: &Member, state: &StatusResponse) -> Option<Finding> {
    let found =
        "it answers, and knows no leader: an election is under way, or it is cut off from the other members";
    let advice = format!(
        "look again in a few seconds; if it stays, check its network to the peers (`{}`)",
        if member.peer.is_empty() { "--listen-peer-urls" } else { &member.peer }
    );
    (state.leader == 0).then(|| Finding::new(Severity::Warning, "etcd.no_leader", found, advice))
}

fn lagging(facts: &Facts, state: &StatusResponse) -> Option<Finding> {
    // Versions before 3.4 report 0.
    let applied = Some(state.raft_applied_index).filter(|applied| *applied > 0)?;
    let committed = facts.states().map(|(_, state)| state.raft_index).max()?;
    let behind = committed.saturating_sub(applied);
    let found = format!("it has applied {applied} of {committed} entries of the log, and is {behind} behind");
    let advice = "look for a slow disk, a busy processor or a cut network there; `etcdctl endpoint status --cluster -w \
                  table` shows whether it catches up";
    (behind > BEHIND).then(|| Finding::new(Severity::Warning, "etcd.lagging", found, advice))
}

fn leases(facts: &Facts) -> Option<Finding> {
    let count = facts.leases.filter(|count| *count > LEASES)?;
    let found =
        format!("there are {count} leases: each member keeps all of them, and a new leader begins each anew");
    let advice = "find the program that grants one for each key: `etcdctl lease list`, then `etcdctl lease timetolive \
                  --keys <id>`";
    Some(Finding::new(Severity::Note, "etcd.leases", found, advice))
}

fn access(facts: &Facts) -> Option<Finding> {
    let (rule, found, advice) = match (&facts.config.user, &facts.config.tls) {
        // It is unknown whether etcd also has users.
        (None, Some(files)) if files.certificate.is_some() => return None,
        (None, _) => (
            "etcd.no_auth",
            "authentication is off: any client that reaches the cluster may delete any lock",
            "make a user for the locks as the page of the store shows, and put it into the URL of every program: one without \
             it loses its locks in the last step. Then `etcdctl user add root && etcdctl user grant-role root root`, and last \
             `etcdctl auth enable`",
        ),
        (Some(_), None) => (
            "etcd.plain_text",
            "the password of the URL crosses the network in plain text",
            "start the members with `--cert-file=<pem> --key-file=<pem>`, and use `etcds://`",
        ),
        (Some(_), Some(_)) => return None,
    };
    Some(Finding::new(Severity::Note, rule, found, advice))
}

fn proxied(facts: &Facts) -> Option<Finding> {
    let found = "a proxy answers in place of the members: only those behind it that answered were looked at";
    let advice = "`lockctl doctor` with the addresses of the members, `etcd://<member>,<member>,<member>`";
    (facts.list == List::Proxied).then(|| Finding::new(Severity::Note, "etcd.proxy", found, advice))
}

fn unread(facts: &Facts) -> Option<Finding> {
    let is_untold = facts.members.iter().any(|member| matches!(member.answer, Answer::Refused));
    let parts = [
        (facts.alarms.is_none(), "the alarms"),
        (facts.list == List::Unread, "the list of the members"),
        (is_untold, "the state of each member"),
        (facts.leases.is_none(), "the leases"),
    ];
    let parts: Vec<_> =
        parts.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, part)| part).collect();
    let found = format!("this user may not read {}", parts.join(", "));
    let advice = "`lockctl doctor` with a user of the role root, `etcdctl user grant-role <user> root`, and with all members in \
                  the URL: others are asked without a login";
    (!parts.is_empty()).then(|| Finding::new(Severity::Note, "etcd.unread", found, advice))
}

fn mib(bytes: i64) -> String {
    format!("{} MiB", bytes >> 20)
}
