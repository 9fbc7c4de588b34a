//! Requests the state of every member.

use std::net::IpAddr;
use std::time::Duration;

use http::Uri;

use super::facts::{Answer, List, Member};
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::link::{Members, Place, places, state};
use crate::backend::etcd::proto::{self, StatusResponse};
use crate::backend::remote::join_all;

/// The name of a server that reported its state, and the state.
type Seen = (String, StatusResponse);

/// Requests the state of every member at the addresses of the URL. The members that none of these addresses reaches are
/// contacted at the addresses that they announce. Also returns the number of addresses to which the URL leads.
pub(super) async fn ask(
    servers: &Members,
    list: Option<Vec<proto::Member>>,
    limit: Duration,
) -> (List, Vec<Member>, usize) {
    let named = places(&servers.config.members, limit).await;
    let addresses = named.len().max(servers.config.members.len());
    let seen: Vec<Seen> = states(servers, &named, true, limit)
        .await
        .into_iter()
        .zip(&named)
        .filter_map(|(state, place)| Some((place.to_string(), state.ok()?)))
        .collect();
    match list {
        Some(list) if list.iter().all(|member| member.id != 0) => {
            let asks = list.into_iter().map(|member| ask_one(servers, member, &seen, limit));
            (List::Whole, join_all(asks).await, addresses)
        }
        list => {
            let kind = if list.is_some() { List::Proxied } else { List::Unread };
            (kind, distinct(seen), addresses)
        }
    }
}

async fn states(
    servers: &Members,
    places: &[Place],
    logs_in: bool,
    limit: Duration,
) -> Vec<Result<StatusResponse, Failure>> {
    join_all(places.iter().map(|place| state(servers, place, logs_in, limit))).await
}

/// Returns the description of a listed member. Requests its state if it was not found at an address of the URL.
async fn ask_one(servers: &Members, member: proto::Member, seen: &[Seen], limit: Duration) -> Member {
    let announced = member.client_urls.first().or(member.peer_urls.first());
    let announced =
        announced.map_or_else(|| format!("{:x}", member.id), |url| without_scheme(url).to_owned());
    let (name, answer) = match seen.iter().find(|(_, state)| id_of(state) == member.id) {
        Some((name, state)) => (name.clone(), Answer::State(state.clone())),
        None => (announced, ask_announced(servers, &member, limit).await),
    };
    let peer = member.peer_urls.into_iter().next().unwrap_or_default();
    Member { id: member.id, name, peer, is_learner: member.is_learner, answer }
}

/// Requests the state of a member at the addresses that it announces.
async fn ask_announced(servers: &Members, member: &proto::Member, limit: Duration) -> Answer {
    if member.client_urls.is_empty() {
        return Answer::NotStarted;
    }
    let config = &servers.config;
    // etcd announces `localhost` by default. This name reaches a member only from the member's own machine.
    let is_here = config.members.iter().any(|(host, _)| is_local(host));
    let hosts = member.client_urls.iter().filter_map(|url| host_of(url, config.tls.is_some()));
    let hosts: Vec<_> = hosts.filter(|(host, _)| is_here || !is_local(host)).collect();
    if hosts.is_empty() {
        return Answer::Elsewhere;
    }
    let places = places(&hosts, limit).await;
    answer(member.id, states(servers, &places, false, limit).await)
}

/// Returns the answer of the member `id`, given the answers from its announced addresses.
fn answer(id: u64, answers: Vec<Result<StatusResponse, Failure>>) -> Answer {
    let (mut refused, mut elsewhere) = (false, false);
    for answer in answers {
        match answer {
            Ok(state) if id_of(&state) == id => return Answer::State(state),
            Ok(_) => elsewhere = true,
            Err(failure) => {
                let is_of_user = matches!(failure.reaction, Reaction::Forbidden | Reaction::LogIn);
                refused |= is_of_user || failure.is_permanent();
                // The TLS handshake reached a server whose certificate has another name or another authority.
                elsewhere |= failure.is_settled();
            }
        }
    }
    match (refused, elsewhere) {
        (true, _) => Answer::Refused,
        (false, true) => Answer::Elsewhere,
        (false, false) => Answer::Silent,
    }
}

/// Returns each server once, even if a server answered at several addresses.
fn distinct(seen: Vec<Seen>) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    for (name, state) in seen {
        let id = id_of(&state);
        if members.iter().all(|member| member.id != id) {
            let is_learner = state.is_learner;
            members.push(Member { id, name, peer: String::new(), is_learner, answer: Answer::State(state) });
        }
    }
    members
}

fn id_of(state: &StatusResponse) -> u64 {
    state.header.as_ref().map_or(0, |header| header.member_id)
}

fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// Returns the host and the port of an announced URL; `None` if the URL has another protocol than this client uses.
fn host_of(url: &str, tls: bool) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let speaks = uri.scheme_str()? == if tls { "https" } else { "http" };
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16()?;
    speaks.then(|| (host.to_owned(), port))
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::etcd::proto::Header;
    use crate::error::LockErrorKind;

    #[test]
    fn announced_urls_are_read() {
        let at = |host: &str| Some((host.to_owned(), 2379));
        let table = [
            ("http://10.0.0.1:2379", false, at("10.0.0.1")),
            ("http://[::1]:2379", false, at("::1")),
            ("https://m.example:2379", true, at("m.example")),
            ("https://m.example:2379", false, None),
            ("http://m.example:2379", true, None),
            ("unix://m:2379", false, None),
            ("http://m.example", false, None),
            ("", false, None),
        ];
        for (url, tls, expected) in table {
            assert_eq!(host_of(url, tls), expected, "{url}");
        }
        assert!(is_local("localhost") && is_local("127.0.0.2") && is_local("::1"));
        assert!(!is_local("10.0.0.1") && !is_local("localhost.example"));
    }

    #[test]
    fn only_a_member_that_says_nothing_is_silent() {
        let state = |id| {
            let header = Some(Header { member_id: id, ..Header::default() });
            Ok(StatusResponse { header, ..StatusResponse::default() })
        };
        let lost = || Err(Failure::new(LockErrorKind::Unavailable, "lost"));
        let refused = || lost().map_err(|failure: Failure| failure.with_reaction(Reaction::Forbidden));
        assert!(matches!(answer(7, vec![lost(), state(7)]), Answer::State(_)));
        assert!(matches!(answer(7, vec![lost(), lost()]), Answer::Silent));
        assert!(matches!(answer(7, Vec::new()), Answer::Silent));
        assert!(matches!(answer(7, vec![state(8), lost()]), Answer::Elsewhere));
        assert!(matches!(answer(7, vec![refused(), state(8)]), Answer::Refused));
    }
}
