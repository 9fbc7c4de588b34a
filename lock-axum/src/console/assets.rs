//! Serves the page and its parts, which are embedded in the program.

use axum::extract::OriginalUri;
use axum_core::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderValue};

const PAGE: &str = include_str!("page/console.html");
const SCRIPT: &str = include_str!("page/console.js");
const STYLE: &str = include_str!("page/console.css");

pub(super) async fn page(OriginalUri(uri): OriginalUri) -> Response {
    let page = PAGE.replace("\"./console.", &format!("\"{}console.", base(uri.path())));
    answer("text/html; charset=utf-8", page)
}

pub(super) async fn script() -> Response {
    answer("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn style() -> Response {
    answer("text/css; charset=utf-8", STYLE)
}

fn answer(content: &'static str, text: impl IntoResponse) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(content))], text).into_response()
}

/// Returns the prefix for the addresses of the parts. The prefix is relative to the page, because a proxy may change
/// the beginning of the path.
fn base(path: &str) -> String {
    match path.rsplit_once('/') {
        None | Some((_, "")) => "./".to_owned(),
        Some((_, last)) => {
            format!("./{}/", last.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_beside_the_page() {
        for (path, expected) in [
            ("/", "./"),
            ("", "./"),
            ("/locks/", "./"),
            ("/locks", "./locks/"),
            ("/a/b:c", "./b:c/"),
            ("/a/b\"c&d", "./b&quot;c&amp;d/"),
        ] {
            assert_eq!(base(path), expected, "{path}");
        }
        assert_eq!(PAGE.matches("\"./console.").count(), 2, "the script and the style");
    }

    #[test]
    fn the_page_has_nothing_that_its_policy_forbids() {
        for forbidden in ["style=", "<style", "onclick", "http:", "https:", "javascript:", "<script>"] {
            assert!(!PAGE.contains(forbidden), "{forbidden}");
        }
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", ".style"]
        {
            assert!(!SCRIPT.contains(forbidden), "{forbidden}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
