//! Sentinels: who is the primary, and when it is another.
//!
//! Source: [Guidelines for Redis clients with support for Redis Sentinel](https://redis.io/docs/latest/develop/reference/sentinel-clients/).

use std::convert::Infallible;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, Value};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::config::{Config, Sentinels};
use super::error::Failure;
use crate::error::LockErrorKind;

/// Where a server listens.
pub(super) type Place = (String, u16);

/// How long one sentinel may take: a healthy one answers within a millisecond, and a dial asks all of them at once.
const PATIENCE: Duration = Duration::from_millis(300);
/// Between two tries to find a sentinel that tells of a failover.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a sentinel that tells is asked as well: what it told while nobody listened is lost.
const LOOK: Duration = Duration::from_secs(2);

/// What one sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Primary(Place),
    /// It watches no primary of this name.
    Unknown,
    Silent(String),
}

/// Asks all sentinels for the primary, and takes the answer of most: one that was cut off may name the last one for a
/// while. The server itself is asked for its role after that.
pub(super) async fn primary(config: &Config, sentinels: &Sentinels) -> Result<Place, Failure> {
    let mut asked = JoinSet::new();
    for place in sentinels.places.clone() {
        let (info, master) = (login(config), sentinels.master.clone());
        asked.spawn(async move { ask(&place, info, &master).await });
    }
    let (count, mut answers) = (asked.len(), Vec::new());
    while let Some(answer) = asked.join_next().await {
        answers.push(answer.unwrap_or_else(|_| Answer::Silent("the question was dropped".to_owned())));
        if let Some(place) = agreed(&answers, count) {
            return Ok(place);
        }
    }
    most(&answers).ok_or_else(|| nobody(sentinels, &answers))
}

/// The place that more than half of all sentinels name.
fn agreed(answers: &[Answer], count: usize) -> Option<Place> {
    answers.iter().find_map(|answer| match answer {
        Answer::Primary(place) if votes(answers, place) * 2 > count => Some(place.clone()),
        _ => None,
    })
}

/// The place that most of those who answered name.
fn most(answers: &[Answer]) -> Option<Place> {
    let places = answers.iter().filter_map(|answer| match answer {
        Answer::Primary(place) => Some(place),
        Answer::Unknown | Answer::Silent(_) => None,
    });
    // The first of equals; `max_by_key` takes the last.
    places.rev().max_by_key(|place| votes(answers, place)).cloned()
}

fn votes(answers: &[Answer], place: &Place) -> usize {
    answers.iter().filter(|answer| matches!(answer, Answer::Primary(named) if named == place)).count()
}

fn nobody(sentinels: &Sentinels, answers: &[Answer]) -> Failure {
    let master = &sentinels.master;
    if answers.contains(&Answer::Unknown) {
        let text = format!(
            "the sentinels watch no primary `{master}`: is the name behind the `/` of the URL the one of `sentinel monitor`?"
        );
        return Failure::new(LockErrorKind::InvalidRequest, text);
    }
    let why = answers.iter().find_map(|answer| match answer {
        Answer::Silent(why) => Some(why.as_str()),
        Answer::Primary(_) | Answer::Unknown => None,
    });
    let text = format!("no sentinel says where `{master}` is ({}); are they up?", why.unwrap_or("no answer"));
    Failure::new(LockErrorKind::Unavailable, text)
}

async fn ask(place: &Place, info: RedisConnectionInfo, master: &str) -> Answer {
    let asked = async {
        let (mut sentinel, _driver, _) = connect(place, info).await?;
        name(&mut sentinel, master).await
    };
    match timeout(PATIENCE, asked).await {
        Ok(Ok(Some(place))) => Answer::Primary(place),
        Ok(Ok(None)) => Answer::Unknown,
        Ok(Err(why)) => Answer::Silent(why),
        Err(_) => Answer::Silent(format!("no answer within {PATIENCE:?}")),
    }
}

/// `SENTINEL GET-MASTER-ADDR-BY-NAME`.
async fn name(sentinel: &mut MultiplexedConnection, master: &str) -> Result<Option<Place>, String> {
    let mut command = Cmd::new();
    command.arg("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let answer: Option<(String, u16)> =
        command.query_async(sentinel).await.map_err(|error| error.to_string())?;
    Ok(answer)
}

fn login(config: &Config) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    if let Some((user, password)) = &config.sentinel_login {
        if let Some(user) = user {
            info = info.set_username(user);
        }
        info = info.set_password(password);
    }
    info
}

/// The task that drives a connection; ends with this value.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a sentinel tells by itself.
type Told = mpsc::UnboundedReceiver<PushInfo>;

async fn connect(
    (host, port): &Place,
    info: RedisConnectionInfo,
) -> Result<(MultiplexedConnection, Driver, Told), String> {
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (tell, told) = mpsc::unbounded_channel();
    let options = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let options = options.set_push_sender(move |push: PushInfo| {
        // Nobody listens where only a question is asked.
        let _ = tell.send(push);
        Ok::<_, Infallible>(())
    });
    let made = MultiplexedConnection::new_with_config(&info, stream, options).await;
    let (connection, driver) = made.map_err(|error| error.to_string())?;
    Ok((connection, Driver(tokio::spawn(driver)), told))
}

/// Returns when another server than `current` is the primary: told by a sentinel, or found out by asking it.
pub(super) async fn replaced(config: &Config, sentinels: &Sentinels, current: &Place) {
    // Not all processes of a service with the same sentinel.
    let mut next = fastrand::usize(..sentinels.places.len().max(1));
    loop {
        let place = &sentinels.places[next % sentinels.places.len()];
        if listen(place, login(config), &sentinels.master, current).await {
            return;
        }
        next += 1;
        sleep(PAUSE).await;
    }
}

/// Listens to one sentinel; whether it names another primary, and not that it is gone.
async fn listen(place: &Place, info: RedisConnectionInfo, master: &str, current: &Place) -> bool {
    let Ok(Ok((mut sentinel, _driver, mut told))) = timeout(PATIENCE, connect(place, info)).await else {
        return false;
    };
    let subscribed = timeout(PATIENCE, sentinel.subscribe("+switch-master")).await;
    if !matches!(subscribed, Ok(Ok(()))) {
        return false;
    }
    loop {
        match timeout(PATIENCE, name(&mut sentinel, master)).await {
            Ok(Ok(Some(named))) if named != *current => return true,
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return false,
        }
        tokio::select! {
            push = told.recv() => match push {
                Some(push) if is_switch(&push, master) => return true,
                Some(_) => {}
                None => return false,
            },
            () = sleep(LOOK) => {}
        }
    }
}

/// Whether a message says `<master> <old host> <old port> <new host> <new port>` of this one.
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

    fn at(port: u16) -> Answer {
        Answer::Primary(("h".to_owned(), port))
    }

    #[test]
    fn the_answer_of_most_counts() {
        let silent = || Answer::Silent("x".to_owned());
        let table = [
            (vec![at(1), at(1), at(2)], Some(1)),
            (vec![at(2), at(1), at(1)], Some(1)),
            (vec![at(2), silent(), silent()], Some(2)),
            (vec![Answer::Unknown, at(3), silent()], Some(3)),
            (vec![at(1), at(2)], Some(1)),
            (vec![silent(), Answer::Unknown], None),
            (vec![], None),
        ];
        for (answers, expected) in table {
            assert_eq!(most(&answers).map(|(_, port)| port), expected, "{answers:?}");
        }
    }

    #[test]
    fn more_than_half_of_all_is_enough_before_all_have_answered() {
        let table = [
            (vec![at(1), at(1)], 3, true),
            (vec![at(1)], 3, false),
            (vec![at(1), at(2)], 3, false),
            (vec![at(1)], 1, true),
            (vec![at(1), at(1)], 4, false),
        ];
        for (answers, count, expected) in table {
            assert_eq!(agreed(&answers, count).is_some(), expected, "{answers:?} of {count}");
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
