//! Makes keys from an axum extractor.

use std::fmt::{self, Display};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use axum_core::body::Body;
use axum_core::extract::FromRequestParts;
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use http_body::Body as _;
use lock_core::key::{Key, KeyTemplate};
use lock_core::{LockError, LockErrorKind, Result};

use super::no_key::NoKey;
use crate::router;

/// A type that a [`LockLayer::key_of`](crate::LockLayer::key_of) function can return. It is one value with [`Display`],
/// or a tuple of two to four such values, one for each placeholder of the template.
///
/// `M` is a marker that distinguishes the two cases. The compiler infers it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a value of a key",
    label = "expected a value that implements `Display`, or a tuple of two to four such values",
    note = "return what identifies the thing, such as its id: `|Path(id): Path<u64>| id`"
)]
pub trait KeyValues<M> {
    /// The number of values.
    const COUNT: usize;

    /// Returns the values without encoding.
    fn values(self) -> Vec<String>;
}

/// The marker for one value.
#[derive(Clone, Copy, Debug)]
pub struct One(());

/// The marker for several values.
#[derive(Clone, Copy, Debug)]
pub struct Several(());

impl<T: Display> KeyValues<One> for T {
    const COUNT: usize = 1;

    fn values(self) -> Vec<String> {
        vec![self.to_string()]
    }
}

macro_rules! tuples {
    ($($count:literal: $($name:ident)*;)*) => {$(
        impl<$($name: Display),*> KeyValues<Several> for ($($name,)*) {
            const COUNT: usize = $count;

            #[allow(non_snake_case, reason = "each value has the name of its type")]
            fn values(self) -> Vec<String> {
                let ($($name,)*) = self;
                vec![$($name.to_string()),*]
            }
        }
    )*};
}

tuples! {
    2: A B;
    3: A B C;
    4: A B C D;
}

type Extracting<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, NoKey>> + Send + 'a>>;

type Extract = dyn for<'a> Fn(&'a mut Parts) -> Extracting<'a> + Send + Sync;

/// A template, and the function that extracts its values.
#[derive(Clone)]
pub(crate) struct Extracted {
    template: KeyTemplate,
    extract: Arc<Extract>,
}

impl Extracted {
    pub(crate) fn new<E, P, M>(
        template: &str,
        values: impl Fn(E) -> P + Send + Sync + 'static,
    ) -> Result<Self>
    where
        E: FromRequestParts<()> + 'static,
        P: KeyValues<M>,
    {
        let template = KeyTemplate::parse(template)?;
        let placeholders = template.placeholders().count();
        if placeholders != P::COUNT {
            let detail = format!(
                "the number of placeholders in the template `{template}` is {placeholders}, but the function returns {}: \
                 it must return one value for each placeholder",
                if P::COUNT == 1 { "1 value".to_owned() } else { format!("{} values", P::COUNT) }
            );
            return Err(LockError::new(LockErrorKind::InvalidKey, detail));
        }
        let values = Arc::new(values);
        let extract: Arc<Extract> = Arc::new(move |parts| {
            let values = Arc::clone(&values);
            let extracting = async move {
                // The extracted value and the rejection may not be `Send`, so both are dropped before the next await.
                let extracted = E::from_request_parts(parts, &()).await;
                let found = extracted.map(|extracted| values(extracted).values());
                match found.map_err(IntoResponse::into_response) {
                    Ok(values) => Ok(values),
                    Err(answer) => Err(no_key(parts, answer).await),
                }
            };
            Box::pin(extracting)
        });
        Ok(Self { template, extract })
    }

    pub(crate) fn template(&self) -> &str {
        self.template.as_str()
    }

    pub(crate) async fn key(&self, parts: &mut Parts) -> Result<Key, NoKey> {
        let values = (self.extract)(parts).await?;
        if values.iter().any(String::is_empty) {
            return Err(NoKey::Client("A value of the key is empty.".into()));
        }
        let mut values = values.into_iter();
        let key =
            self.template.render(|_name| Ok(values.next().expect("BUG: counted when the layer was built")));
        key.map_err(|_| NoKey::Client("The key of the lock would be empty.".into()))
    }
}

/// Returns the reason why a request that the extractor rejected has no key. If a router has found no route for the
/// request, there are no path parameters to extract, and the request keeps its 404. A rejection for another reason is
/// sent to the client even without a route. Otherwise a client could omit a header, and a fallback handler would run
/// unlocked.
async fn no_key(parts: &mut Parts, rejection: Response) -> NoKey {
    let has_router = router::params(parts).await.is_ok();
    if !has_router || router::route(parts).is_some() {
        return NoKey::Refused(Box::new(rejection));
    }
    let (rejection, text) = with_text(rejection).await;
    if lacks_route(rejection.status(), &text) { NoKey::NoRoute } else { NoKey::Refused(Box::new(rejection)) }
}

/// The longest text of a rejection that is read, in bytes. The texts of axum's rejections are shorter.
const LONGEST: u64 = 512;

/// Returns the answer together with its text. The text is empty if its length is unknown or above [`LONGEST`].
async fn with_text(answer: Response) -> (Response, Vec<u8>) {
    if answer.body().size_hint().exact().is_none_or(|length| length > LONGEST) {
        return (answer, Vec::new());
    }
    let (head, mut body) = answer.into_parts();
    let mut text = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame.into_data() {
            text.extend_from_slice(&data);
        }
    }
    (Response::from_parts(head, Body::from(text.clone())), text)
}

/// Returns whether an extractor of axum, for path parameters or for the route, has rejected a request because the
/// request has no route. The text is compared, because another extractor may have wrapped the type of the rejection.
fn lacks_route(status: StatusCode, text: &[u8]) -> bool {
    let beginnings: &[&str] = match status {
        StatusCode::BAD_REQUEST => &["Invalid URL"],
        StatusCode::INTERNAL_SERVER_ERROR => &[
            "Wrong number of path arguments",
            "Unsupported type",
            "No paths parameters found",
            "No matched path found",
        ],
        _ => &[],
    };
    beginnings.iter().any(|beginning| text.starts_with(beginning.as_bytes()))
}

impl fmt::Debug for Extracted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extracted").field("template", &self.template).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_the_route_is_told_by_its_text() {
        for (status, text, expected) in [
            (400, "Invalid URL: missing field `id`", true),
            (500, "Wrong number of path arguments for `Path`. Expected 1 but got 0", true),
            (500, "No matched path found", true),
            (400, "the header `x-tenant` is missing", false),
            (401, "Invalid URL", false),
            (500, "", false),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(lacks_route(status, text.as_bytes()), expected, "{status} {text}");
        }
    }
}
