//! Serves the data of the console as JSON.

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

use super::access::check_origin;
use super::journal::millis;
use super::problem::{Problem, json};
use super::query::Query;
use super::served::Served;
use super::{snapshot, stream};

/// The largest number of holders in a snapshot.
const ROWS: usize = 500;
/// The largest body of a request.
const BODY: usize = 16 * 1024;
/// The largest number of characters in a reason.
const REASON: usize = 500;

/// The request of an operator to release a lock by force.
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

/// Answers with one snapshot.
pub(super) async fn state(State(served): State<Arc<Served>>, head: Parts) -> Result<Response, Problem> {
    let query = Query::parse(&head.uri, ROWS)?;
    let read_only = served.operators.name(&head)?.is_none();
    let mut follower = served.poll.follow();
    let ended = |_| Problem::failed("the console has ended");
    let seen = follower.wait_for(Option::is_some).await.map_err(ended)?.clone().unwrap_or_default();
    let text = snapshot::with_time(millis(wall()), &served.render(&seen, &query, read_only));
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Answers with a stream of snapshots.
pub(super) async fn events(State(served): State<Arc<Served>>, head: Parts) -> Result<Response, Problem> {
    let query = Query::parse(&head.uri, ROWS)?;
    let read_only = served.operators.name(&head)?.is_none();
    stream::open(served, query, read_only)
}

/// Answers with the findings of the doctor: problems that endanger the locks.
pub(super) async fn doctor(State(served): State<Arc<Served>>, head: Parts) -> Result<Response, Problem> {
    check_origin(&head.headers)?;
    served.doctor().await
}

/// Releases a lock by force: its holder loses the lock.
pub(super) async fn force_release(
    State(served): State<Arc<Served>>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let operator = served.operators.admit(&head).inspect_err(|problem| log(None, problem))?;
    take(&served, &operator, body).await.inspect_err(|problem| log(Some(&operator), problem))
}

/// Logs a forced release that has failed. The texts are quoted, so that a text with a line break does not look like two
/// lines.
fn log(operator: Option<&str>, problem: &Problem) {
    tracing::warn!(?operator, why = ?problem.detail, "a release by force from the console has failed");
}

async fn take(served: &Served, operator: &str, body: Body) -> Result<Response, Problem> {
    let (key, id, reason) = ForceRelease::read(body).await?.check()?;
    // The name of the operator comes first and is quoted. So no reason can look as if another person had given it.
    let reason = format!("by {operator:?} from the console: {reason}");
    let locks = served.poll.locks().clone();
    // The release runs in its own task, so that the log reports the release even if the browser disconnects.
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

    /// Checks the request. Returns the key, the grant and the reason.
    fn check(self) -> Result<(String, GrantId, String), Problem> {
        if !is_typed(&self.typed_key, &self.key) {
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

/// Returns whether `typed` is the key, either as it is or as the page shows it. Control characters, and spaces at the
/// start or end, are ignored, because one cannot type them in a field of one line.
fn is_typed(typed: &str, key: &str) -> bool {
    let bare =
        |text: &str| text.chars().filter(|char| !char.is_control()).collect::<String>().trim().to_owned();
    !typed.trim().is_empty() && [typed, &unescaped(typed)].iter().any(|typed| bare(typed) == bare(key))
}

/// Returns `text` with each escape such as `\u{a0}` replaced by its character. The page shows invisible characters in
/// this form.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\u{");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let shown = part.split_once('}').and_then(|(digits, rest)| {
            Some((u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?, rest))
        });
        match shown {
            Some((char, rest)) => whole.extend([char.to_string().as_str(), rest]),
            None => whole.extend(["\\u{", part]),
        }
    }
    whole
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
            // In these cases, the key is typed as the page shows it.
            ("a\nb", "a\\u{a}b", id, "stuck", None),
            ("\u{202e}a\u{a0}", "\\u{202e}a\\u{a0}", id, "stuck", None),
            ("\u{e0041}\n", "\\u{e0041}", id, "stuck", None),
            ("\n", "\\u{a}", id, "stuck", None),
            ("\\u{41}", "\\u{5c}u{41}", id, "stuck", None),
            ("\\u{41", "\\u{41", id, "stuck", None),
            ("\\u{d800}", "\\u{d800}", id, "stuck", None),
            ("a\u{202e}", "a", id, "stuck", Some("typed")),
            ("a\u{202e}", "a\\u{202d}", id, "stuck", Some("typed")),
            ("\n", "", id, "stuck", Some("typed")),
            ("\u{a0}", " ", id, "stuck", Some("typed")),
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
