//! Checks the members as a group: their number, versions and addresses.

use std::collections::BTreeMap;

use super::facts::{Answer, Facts, List, Member};
use crate::backend::{Finding, Severity};

/// Returns the findings about the membership. If the list of members is not complete, returns only the finding about
/// versions.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all: Vec<Finding> = versions(facts).into_iter().collect();
    if facts.list == List::Whole {
        all.extend(facts.members.iter().filter_map(|member| silent(facts, member)));
        all.extend(facts.members.iter().filter_map(elsewhere));
        all.extend(facts.members.iter().filter_map(learner));
        all.extend(number(facts));
        all.extend(unnamed(facts));
    }
    all
}

fn versions(facts: &Facts) -> Option<Finding> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (member, state) in facts.states() {
        versions.entry(&state.version).or_default().push(&member.name);
    }
    let told: Vec<_> =
        versions.iter().map(|(version, members)| format!("{version} ({})", members.join(", "))).collect();
    let found = format!("the members run different versions: {}", told.join(", "));
    let advice = "finish the upgrade: one version on all members";
    (versions.len() > 1).then(|| Finding::new(Severity::Note, "etcd.versions", found, advice))
}

fn silent(facts: &Facts, member: &Member) -> Option<Finding> {
    let is_down = |member: &Member| matches!(member.answer, Answer::Silent | Answer::NotStarted);
    if member.is_learner || !is_down(member) {
        return None;
    }
    let (all, down) = (facts.voters().count(), facts.voters().filter(|member| is_down(member)).count());
    let more = (all.saturating_sub(1) / 2).saturating_sub(down);
    let what = match member.answer {
        Answer::NotStarted => "it was added to the cluster, and has never started",
        _ => "it does not answer this client",
    };
    let found = format!(
        "{what}: {down} of {all} members with a vote are missing, and if more than {more} others fail, no lock is granted"
    );
    let advice = format!("start it; if it is gone for good, `etcdctl member remove {:x}`", member.id);
    Some(Finding::new(Severity::Warning, "etcd.silent", found, advice).about(&member.name))
}

fn elsewhere(member: &Member) -> Option<Finding> {
    let found = "it was not looked at: the URL does not lead to it, and the address that it announces leads elsewhere";
    let advice =
        "start it with an address that clients reach, `--advertise-client-urls=http://<address>:2379`";
    let finding = Finding::new(Severity::Note, "etcd.elsewhere", found, advice).about(&member.name);
    matches!(member.answer, Answer::Elsewhere).then_some(finding)
}

fn learner(member: &Member) -> Option<Finding> {
    let found = match member.answer {
        Answer::NotStarted => "it is a learner that has never started: it has no vote",
        Answer::Silent => "it is a learner that does not answer: it has no vote",
        Answer::State(_) | Answer::Refused | Answer::Elsewhere => {
            "it is a learner: it has no vote, and answers no locks"
        }
    };
    let advice = format!(
        "once it has caught up, `etcdctl member promote {id:x}`; if it is not wanted, `etcdctl member remove {id:x}`",
        id = member.id
    );
    let finding = Finding::new(Severity::Note, "etcd.learner", found, advice).about(&member.name);
    member.is_learner.then_some(finding)
}

fn number(facts: &Facts) -> Option<Finding> {
    // A new member counts for the majority at once, even if it does not run. A learner does not count. So the advice
    // adds a member as a learner first.
    let add = "`etcdctl member add <name> --learner --peer-urls=<url>`, start it with the `--initial-cluster` that this prints \
               and `--initial-cluster-state=existing`, and once it has caught up `etcdctl member promote <id>`";
    let (rule, severity, found, advice) = match facts.voters().count() {
        1 => (
            "etcd.one_member",
            Severity::Warning,
            "the cluster has one member with a vote: while it is down no lock is granted, and its disk has the only copy \
             of the locks"
                .to_owned(),
            format!("add two members, one after the other: {add}"),
        ),
        2 => (
            "etcd.even_members",
            Severity::Warning,
            "the cluster has 2 members with a vote: while either is down no lock is granted".to_owned(),
            format!("add one: {add}"),
        ),
        even if even > 0 && even % 2 == 0 => (
            "etcd.even_members",
            Severity::Note,
            format!("the cluster has {even} members with a vote, and survives no more losses than {} would", even - 1),
            format!("add one: {add}"),
        ),
        _ => return None,
    };
    Some(Finding::new(severity, rule, found, advice))
}

fn unnamed(facts: &Facts) -> Option<Finding> {
    let (addresses, all) = (facts.addresses, facts.voters().count());
    let names: Vec<_> = facts.voters().map(|member| member.name.as_str()).collect();
    let found = format!(
        "the URL leads to {addresses} of {all} members: without those this process has no locks, however many others work"
    );
    let advice = format!("name all members in the URL, `{}`", names.join(","));
    (addresses < all).then(|| Finding::new(Severity::Note, "etcd.unnamed", found, advice))
}
