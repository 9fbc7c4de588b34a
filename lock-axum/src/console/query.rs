//! Reads the parameters of a request for data.

use http::Uri;

use super::problem::Problem;
use crate::key::form_value;

/// The largest number of locks in one list.
const MOST: usize = 10_000;

/// The part of the console that a viewer has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// All views, for programs that read the data without the page.
    All,
    Held,
    Waiting,
    Heat,
    History,
    Stores,
    Doctor,
}

impl View {
    /// Returns whether a snapshot of this view has the part that `view` shows.
    pub(super) fn shows(self, view: Self) -> bool {
        self == Self::All || self == view
    }
}

/// The part of the data that a viewer requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) view: View,
    /// The prefix of the keys, after the namespace.
    pub(super) prefix: String,
    pub(super) limit: usize,
}

impl Query {
    /// Reads the query of `uri`. Parameters with other names are ignored.
    pub(super) fn parse(uri: &Uri, default_limit: usize) -> Result<Self, Problem> {
        let mut query = Self { view: View::All, prefix: String::new(), limit: default_limit };
        for pair in uri.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let bad = |what: &str| Problem::bad_request(format!("the parameter `{name}` {what}"));
            match name {
                "prefix" => {
                    query.prefix = form_value(value).ok_or_else(|| bad("is not UTF-8"))?.into_owned();
                }
                "view" => query.view = view(value).ok_or_else(|| bad("is no view of the console"))?,
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
                    query.limit = limit.ok_or_else(|| bad("is a number from 1 to 10,000"))?;
                }
                _ => {}
            }
        }
        Ok(query)
    }
}

fn view(name: &str) -> Option<View> {
    Some(match name {
        "held" => View::Held,
        "waiting" => View::Waiting,
        "heat" => View::Heat,
        "history" => View::History,
        "stores" => View::Stores,
        "doctor" => View::Doctor,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read() {
        let read = |text: &str| Query::parse(&format!("/?{text}").parse().expect("a uri"), 7);
        let good = |view, prefix: &str, limit| Query { view, prefix: prefix.to_owned(), limit };
        for (text, expected) in [
            ("", good(View::All, "", 7)),
            ("prefix=a%3Ab+c&view=waiting&limit=10000", good(View::Waiting, "a:b c", 10_000)),
            ("other=%ff%41&prefix", good(View::All, "", 7)),
        ] {
            assert_eq!(read(text).expect("a query"), expected, "{text}");
        }
        for text in ["limit=0", "limit=10001", "limit=x", "limit=", "view=", "view=Held", "prefix=%ff"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
