//! The data of the console.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum_core::body::Body;
use axum_core::response::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use lock_core::GrantId;
use lock_core::clock::wall;
use serde::{Deserialize, Serialize};

use super::journal::millis;
use super::problem::{Problem, json};
use super::query::Query;
use super::served::Served;
use super::{snapshot, stream};

/// How many holders a snapshot shows.
const ROWS: usize = 500;
/// The largest body of a request.
const BODY: usize = 16 * 1024;
/// The largest number of characters in a reason.
const REASON: usize = 500;

/// What an operator wants to do.
#[derive(Debug, Deserialize)]
struct ForceRelease {
    key: String,
    id: String,
    typed_key: String,
    reason: String,
}

#[derive(Serialize)]
struct Answer {
    released: bool,
}

/// A list of the store's locks, from the store itself.
pub(super) async fn locks(State(served): State<Arc<Served>>, head: Parts) -> Result<Response, Problem> {
    let query = Query::of(&head.uri, ROWS)?;
    let mut listed = served.poll.locks().locks_matching(&query.prefix).await?;
    listed.truncated |= listed.locks.len() > query.limit;
    listed.locks.truncate(query.limit);
    Ok(json(&listed))
}

/// One snapshot.
pub(super) async fn state(State(served): State<Arc<Served>>, head: Parts) -> Result<Response, Problem> {
    let query = Query::of(&head.uri, ROWS)?;
    let read_only = served.operators.name(&head)?.is_none();
    let mut follower = served.poll.follow();
    let ended = |_| Problem::failed("the console has ended");
    let seen = follower.wait_for(Option::is_some).await.map_err(ended)?.clone().unwrap_or_default();
    let text = snapshot::at(millis(wall()), &served.render(&seen, &query, read_only));
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Snapshots for as long as they change.
pub(super) async fn events(State(served): State<Arc<Served>>, head: Parts) -> Result<Response, Problem> {
    let query = Query::of(&head.uri, ROWS)?;
    let read_only = served.operators.name(&head)?.is_none();
    Ok(stream::open(served, query, read_only))
}

/// What endangers the locks.
pub(super) async fn doctor(State(served): State<Arc<Served>>) -> Result<Response, Problem> {
    served.doctor().await
}

/// Takes a lock from its holder.
pub(super) async fn force_release(
    State(served): State<Arc<Served>>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let operator = served.operators.admit(&head)?;
    let (key, id, reason) = ForceRelease::read(body).await?.check()?;
    let reason = format!("{reason} (by {operator}, from the console)");
    let locks = served.poll.locks().clone();
    // In a task of its own: if the browser goes away, the log still says what was done.
    let done = tokio::spawn(async move { locks.force_release(key, &id, &reason).await }).await;
    let released = done.map_err(|_| Problem::failed("the code of the store has panicked"))??;
    served.poll.hurry();
    Ok(json(&Answer { released }))
}

impl ForceRelease {
    async fn read(body: Body) -> Result<Self, Problem> {
        let bytes = to_bytes(body, BODY).await.map_err(|_| Problem::bad_request("the body is too long"))?;
        serde_json::from_slice(&bytes).map_err(|error| Problem::bad_request(error.to_string()))
    }

    /// Returns the key, the grant and the reason.
    fn check(self) -> Result<(String, GrantId, String), Problem> {
        if typed(&self.typed_key) != typed(&self.key) {
            return Err(Problem::bad_request("the key that you have typed is not the key of this lock"));
        }
        let reason = self.reason.trim();
        if reason.is_empty() {
            return Err(Problem::bad_request(
                "the reason is missing: the log keeps it for those who ask later",
            ));
        }
        if reason.chars().count() > REASON {
            return Err(Problem::bad_request(format!("the reason is longer than {REASON} characters")));
        }
        let id = self.id.parse()?;
        Ok((self.key, id, reason.to_owned()))
    }
}

/// Returns the part of a key that can be typed into a field of one line.
fn typed(key: &str) -> String {
    key.chars().filter(|char| !char.is_control()).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_wants_is_checked() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let long = "x".repeat(REASON + 1);
        for (key, typed_key, id, reason, says) in [
            ("order:1", "order:1", id, "stuck", None),
            ("a\nb\u{7}", "ab", id, "stuck", None),
            ("a ", "a", id, " stuck ", None),
            ("order:1", "order:2", id, "stuck", Some("typed")),
            ("order:1", "", id, "stuck", Some("typed")),
            ("order:1", "order:1", id, " ", Some("reason is missing")),
            ("order:1", "order:1", id, &long, Some("longer than 500")),
            ("order:1", "order:1", "0123", "stuck", Some("40 lower-case")),
        ] {
            let [key, typed_key, id, reason] = [key, typed_key, id, reason].map(str::to_owned);
            let wanted = ForceRelease { key: key.clone(), id, typed_key, reason };
            match (wanted.check(), says) {
                (Ok((checked, _, reason)), None) => assert_eq!((checked, reason.as_str()), (key, "stuck")),
                (Err(problem), Some(says)) => assert!(format!("{problem:?}").contains(says), "{problem:?}"),
                (found, _) => panic!("{key}: {found:?}"),
            }
        }
    }
}
