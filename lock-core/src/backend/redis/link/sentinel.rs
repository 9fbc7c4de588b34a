//! Requests the address of the primary from the sentinels, and listens for its replacement.
//!
//! Source: [Guidelines for Redis clients with support for Redis
//! Sentinel](https://redis.io/docs/latest/develop/reference/sentinel-clients/).

mod dial;
mod view;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, PushInfo, PushKind, RedisConnectionInfo, RedisResult, Value, from_redis_value};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::dial::{greet, silent};
use crate::backend::redis::config::{Config, Endpoint, Sentinels};
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::remote::{Tls, socket};
use crate::clock::Clock;
use crate::error::LockErrorKind;

pub(crate) use dial::Answer;
pub(crate) use view::sentinel_views;

/// The time limit for the remaining sentinels after more than half have named a primary. One hanging sentinel must not
/// slow down every dial.
const GRACE: Duration = Duration::from_millis(50);
/// The pause between two attempts to connect to a sentinel that announces failovers.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause between two requests to a sentinel that also announces failovers. The requests find a failover whose
/// announcement was lost.
const LOOK: Duration = Duration::from_secs(2);

/// A step of the request to one sentinel of the URL.
enum Step {
    /// The host name and its addresses. Each address counts as a separate sentinel.
    Found(String, Vec<SocketAddr>),
    Answered(Answer),
}

/// Returns the address of the primary, which is requested from all sentinels within `limit`. The caller must check the
/// role of the server there.
pub(crate) async fn primary(
    config: &Config,
    tls: Option<&Tls>,
    sentinels: &Sentinels,
    limit: Duration,
) -> Result<Endpoint, Failure> {
    let (mut asked, began) = (JoinSet::new(), Clock::Suspend.now());
    // Sends all requests at once, because otherwise one hanging sentinel would use up the time of the dial. This
    // function owns the set of requests, so the unfinished requests are cancelled when it returns.
    for (host, port) in sentinels.places.clone() {
        asked.spawn(async move {
            match timeout(limit, socket::addresses(&host, port)).await {
                Ok(Ok(found)) if !found.is_empty() => Step::Found(host, found),
                Ok(Ok(_)) => Step::Answered(Answer::Silent("the name has no address".to_owned())),
                Ok(Err(error)) => Step::Answered(Answer::Silent(error.to_string())),
                Err(_) => Step::Answered(Answer::Silent(format!("no address of the name within {limit:?}"))),
            }
        });
    }
    let (mut count, mut answers, mut patience) = (asked.len(), Vec::new(), limit);
    loop {
        let wait = match is_enough(&answers, count) {
            // Until a majority has named a primary, each sentinel gets its full time limit.
            false => patience.saturating_sub(Clock::Suspend.now().since(began)) + GRACE,
            true => GRACE,
        };
        match timeout(wait, asked.join_next()).await {
            Ok(Some(Ok(Step::Found(host, addresses)))) => {
                count += addresses.len() - 1;
                for address in addresses {
                    let (host, tls, info) = (host.clone(), tls.cloned(), config.sentinel_handshake());
                    let master = sentinels.master.clone();
                    let asking =
                        async move { ask((&host, address), tls.as_ref(), info, &master, limit).await };
                    asked.spawn(async move { Step::Answered(asking.await) });
                }
            }
            Ok(Some(Ok(Step::Answered(answer)))) => {
                if !matches!(answer, Answer::Unusable(_) | Answer::Silent(_)) && patience == limit {
                    // If the other sentinels are up, they need about as much time as this sentinel. So the limit is
                    // lowered to twice this time, or to `Config::patience` if that is longer.
                    let took = Clock::Suspend.now().since(began);
                    patience = limit.min((took * 2).max(config.patience()));
                }
                answers.push(answer);
            }
            Ok(Some(Err(_))) => {}
            Ok(None) | Err(_) => break,
        }
    }
    newest(&answers).ok_or_else(|| nobody(sentinels, &answers))
}

/// Returns whether more than half of all sentinels have named a primary.
fn is_enough(answers: &[Answer], count: usize) -> bool {
    answers.iter().filter(|answer| matches!(answer, Answer::Primary(..))).count() * 2 > count
}

/// Returns the address with the largest epoch. A failover starts a new epoch, and needs a majority of the sentinels. A
/// sentinel that was cut off, or has not noticed the failover, names an earlier primary. If several addresses have the
/// same epoch, the address that most sentinels named wins.
fn newest(answers: &[Answer]) -> Option<Endpoint> {
    let votes = |place: &Endpoint| {
        answers.iter().filter(|answer| matches!(answer, Answer::Primary(named, _) if named == place)).count()
    };
    let places = answers.iter().filter_map(|answer| match answer {
        Answer::Primary(place, epoch) => Some((place, *epoch)),
        Answer::Unknown(_) | Answer::Refused(_) | Answer::Unusable(_) | Answer::Silent(_) => None,
    });
    // The list is reversed, because `max_by_key` returns the last of equal elements, and the first should win.
    places.rev().max_by_key(|(place, epoch)| (*epoch, votes(place))).map(|(place, _)| place.clone())
}

/// Returns the failure of answers of which none names a primary.
fn nobody(sentinels: &Sentinels, answers: &[Answer]) -> Failure {
    let master = &sentinels.master;
    let (mut why, mut unusable, mut refused, mut unknown) = ("no answer", None, None, None);
    for answer in answers {
        match answer {
            Answer::Unknown(names) => unknown = Some(names),
            Answer::Refused(text) => refused = Some(text),
            Answer::Unusable(text) => unusable = Some(text),
            Answer::Silent(text) => why = text,
            Answer::Primary(..) => {}
        }
    }
    // Reports the most helpful reason. In this order: a wrong name, a refusal, a certificate or a wrong server, a missing
    // answer.
    if let Some(names) = unknown {
        let known = match names.as_deref() {
            None => String::new(),
            Some([]) => ", but none at all".to_owned(),
            Some(names) => format!(", but `{}`", names.join("`, `")),
        };
        let text = format!(
            "the sentinels watch no primary `{master}`{known}; the name stands behind the `/` of the URL, and is \
             the one of `sentinel monitor`"
        );
        return Failure::new(LockErrorKind::InvalidRequest, text).with_reaction(Reaction::Reconnect);
    }
    if let Some(text) = refused {
        let text = format!(
            "the sentinels refuse to say where `{master}` is ({text}); their own login goes into the options \
             `sentinel_user` and `sentinel_password` of the URL"
        );
        return Failure::new(LockErrorKind::Unavailable, text).permanent();
    }
    if let Some(text) = unusable {
        // Another attempt would fail in the same way.
        let text = format!("no sentinel says where `{master}` is ({text})");
        return Failure::new(LockErrorKind::Unavailable, text).settled();
    }
    let text = format!("no sentinel says where `{master}` is ({why}); are they up?");
    Failure::new(LockErrorKind::Unavailable, text)
}

async fn ask(
    (host, address): (&str, SocketAddr),
    tls: Option<&Tls>,
    info: RedisConnectionInfo,
    master: &str,
    limit: Duration,
) -> Answer {
    let asked = async {
        let stream = TcpStream::connect(address).await?;
        let (mut sentinel, _driver, _) = greet(stream, host, tls, info).await?;
        Ok::<_, Answer>(look_up(&mut sentinel, master).await?)
    };
    match timeout(limit, asked).await {
        Ok(Ok(answer) | Err(answer)) => answer,
        Err(_) => {
            let tls = if tls.is_some() { ", do they speak TLS on this port?" } else { "" };
            Answer::Silent(format!("no answer within {limit:?}{tls}"))
        }
    }
}

/// Requests the primary and its epoch. If the name is unknown, requests the names that the sentinel watches.
async fn look_up(sentinel: &mut MultiplexedConnection, master: &str) -> RedisResult<Answer> {
    let mut questions = Pipeline::with_capacity(2);
    // The guidelines for clients (step 2) prescribe the second request. The first request returns the epoch.
    questions.cmd("SENTINEL").arg("MASTER").arg(master);
    questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let answers = sentinel.send_packed_commands(&questions, 0, 2).await?;
    let [details, place] = answers.as_slice() else { return Ok(Answer::Unknown(None)) };
    match place {
        // A sentinel answers this request without an error of this code, even for an unknown name.
        Value::ServerError(error) if error.code() == "ERR" => {
            let details = error.details().unwrap_or("ERR").trim_end();
            let text =
                format!("a server that is no sentinel answered: {details}; `redis://` is for such a server");
            return Ok(Answer::Unusable(text));
        }
        Value::ServerError(error) => return Err(error.clone().into()),
        _ => {}
    }
    match from_redis_value::<Option<Endpoint>>(place.clone())? {
        // Without the permission for details, the user receives no epoch, and it counts as 0. Then the answers of the
        // other sentinels decide.
        Some(place) => Ok(Answer::Primary(place, epoch(details).unwrap_or(0))),
        None => {
            let mut question = Cmd::new();
            question.arg("SENTINEL").arg("MASTERS");
            let all: Option<Vec<HashMap<String, String>>> = question.query_async(sentinel).await.ok();
            let names =
                |all: Vec<HashMap<_, _>>| all.into_iter().filter_map(|mut one| one.remove("name")).collect();
            Ok(Answer::Unknown(all.map(names)))
        }
    }
}

/// Returns the number of the failover in which the server became the primary.
fn epoch(details: &Value) -> Option<u64> {
    let details: HashMap<String, String> = from_redis_value(details.clone()).ok()?;
    details.get("config-epoch")?.parse().ok()
}

/// Waits until the sentinels name a primary other than `current`, in an announcement or in an answer.
pub(crate) async fn replaced(config: &Config, tls: Option<&Tls>, sentinels: &Sentinels, current: &Endpoint) {
    // Starts at a random sentinel, so that the processes of a service use different sentinels.
    let mut next = fastrand::usize(..sentinels.places.len().max(1));
    loop {
        let place = &sentinels.places[next % sentinels.places.len()];
        // A sentinel that has not noticed the last failover names the previous primary. So the answer of one sentinel
        // is only a hint, and all sentinels are queried.
        if listen(place, (config, tls), &sentinels.master, current).await
            && primary(config, tls, sentinels, config.patience()).await.is_ok_and(|named| named != *current)
        {
            return;
        }
        next += 1;
        // Pauses even if this sentinel alone names another primary, because it may do so for a while.
        sleep(PAUSE).await;
    }
}

/// Subscribes to one sentinel. Returns `true` when it names another primary, and `false` when the connection is lost.
async fn listen(
    place: &Endpoint,
    (config, tls): (&Config, Option<&Tls>),
    master: &str,
    current: &Endpoint,
) -> bool {
    let connecting = async {
        let (host, port) = place;
        let stream = socket::connect(host, *port).await.map_err(|failure| silent(&failure))?;
        greet(stream, host, tls, config.sentinel_handshake()).await
    };
    let Ok(Ok((mut sentinel, _driver, mut told))) = timeout(config.patience(), connecting).await else {
        return false;
    };
    // Subscribes before the first request. In the other order, a failover between the two steps would be missed.
    match timeout(config.patience(), sentinel.subscribe("+switch-master")).await {
        Ok(Ok(())) => {}
        // A refused subscription is not fatal, because the loop below also sends requests to the sentinel.
        Ok(Err(error)) if error.code() == Some("NOPERM") => tracing::warn!(
            sentinel = %format_args!("{}:{}", place.0, place.1),
            "the user of the sentinels may not subscribe to `+switch-master`: a failover is found out up to {LOOK:?} later"
        ),
        Ok(Err(_)) | Err(_) => return false,
    }
    loop {
        // Sends a request before the first wait too, because a failover before the subscription is not announced again.
        match timeout(config.patience(), look_up(&mut sentinel, master)).await {
            // The answer is not final, because this sentinel may be outdated. So the caller queries all sentinels.
            Ok(Ok(Answer::Primary(named, _))) if named != *current => return true,
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return false,
        }
        tokio::select! {
            push = told.recv() => match push {
                // The message is only a hint. Its contents are not used, because the caller queries all sentinels.
                Some(push) if is_switch(&push, master) => return true,
                Some(_) => {}
                // The driver has ended, and so has the connection.
                None => return false,
            },
            () = sleep(LOOK) => {}
        }
    }
}

/// Returns whether a message `<master> <old host> <old port> <new host> <new port>` is about this primary.
fn is_switch(push: &PushInfo, master: &str) -> bool {
    match (&push.kind, &push.data[..]) {
        (PushKind::Message, [_, Value::BulkString(text)]) => {
            std::str::from_utf8(text).is_ok_and(|text| text.split(' ').next() == Some(master))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16, epoch: u64) -> Answer {
        Answer::Primary(("h".to_owned(), port), epoch)
    }

    fn silent() -> Answer {
        Answer::Silent("x".to_owned())
    }

    #[test]
    fn the_newest_answer_counts_and_among_equals_that_of_most() {
        let unknown = || Answer::Unknown(Some(Vec::new()));
        let table = [
            (vec![at(1, 0), at(1, 0), at(2, 1)], Some(2)),
            (vec![at(2, 3), at(1, 2), at(1, 2)], Some(2)),
            (vec![at(2, 1), at(1, 1), at(1, 1)], Some(1)),
            (vec![at(2, 1), silent(), silent()], Some(2)),
            (vec![unknown(), at(3, 0), silent()], Some(3)),
            (vec![at(1, 1), at(2, 1)], Some(1)),
            (vec![silent(), unknown()], None),
            (vec![], None),
        ];
        for (answers, expected) in table {
            assert_eq!(newest(&answers).map(|(_, port)| port), expected, "{answers:?}");
        }
    }

    #[test]
    fn more_than_half_of_all_is_enough_to_be_short_with_the_rest() {
        let table = [
            (vec![at(1, 0), at(2, 1)], 3, true),
            (vec![at(1, 0)], 3, false),
            (vec![at(1, 0), silent()], 3, false),
            (vec![at(1, 0)], 1, true),
            (vec![at(1, 0), at(1, 0)], 4, false),
        ];
        for (answers, count, expected) in table {
            assert_eq!(is_enough(&answers, count), expected, "{answers:?} of {count}");
        }
    }

    #[test]
    fn who_gets_no_answer_is_told_why() {
        let sentinels = Sentinels { places: Vec::new(), master: "m".to_owned() };
        let unknown = Answer::Unknown(Some(vec!["a".to_owned(), "b".to_owned()]));
        let refused = Answer::Refused("NOAUTH".to_owned());
        let unusable = || Answer::Unusable("TLS failed".to_owned());
        let table = [
            (vec![silent(), unknown], "no primary `m`, but `a`, `b`;", true),
            (vec![Answer::Unknown(Some(Vec::new()))], "but none at all;", true),
            (vec![Answer::Unknown(None)], "watch no primary `m`; the name", true),
            (vec![refused.clone(), silent()], "`sentinel_password`", true),
            (vec![unusable(), refused, unusable()], "`sentinel_password`", true),
            (vec![silent(), unusable(), silent()], "no sentinel says where `m` is (TLS failed)", true),
            (vec![silent()], "(x); are they up?", false),
            (vec![], "(no answer); are they up?", false),
        ];
        for (answers, expected, settled) in table {
            let failure = nobody(&sentinels, &answers);
            assert!(format!("{failure:?}").contains(expected), "{failure:?}");
            assert_eq!(failure.is_settled(), settled, "{expected}");
        }
    }

    #[test]
    fn a_switch_of_another_primary_is_none() {
        let push = |text: &str| PushInfo {
            kind: PushKind::Message,
            data: vec![
                Value::BulkString(b"+switch-master".to_vec()),
                Value::BulkString(text.as_bytes().to_vec()),
            ],
        };
        assert!(is_switch(&push("mymaster 127.0.0.1 1 127.0.0.1 2"), "mymaster"));
        assert!(!is_switch(&push("mymaster2 127.0.0.1 1 127.0.0.1 2"), "mymaster"));
    }
}
