//! Builds a quorum of voters from a `redlock://` URL.

use super::quorum::Quorum;
use super::url::RedlockUrl;
use super::voter::Voter;
use crate::error::{LockError, LockErrorKind, Result};

/// Connects to the servers of a `redlock://` or `redlocks://` URL, and builds a quorum from them.
pub(crate) async fn connect(url: &str) -> Result<Quorum<Voter>> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let RedlockUrl { urls, names, options, node_timeout } = RedlockUrl::parse(rest, scheme == "redlocks")?;
    if urls.len() == 1 {
        let detail = "a `redlock://` URL with one server is no majority of several: name three, or a larger odd number, that \
                      share nothing, or write `redis://` for one";
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    }
    let voters = Voter::connect_all(urls.iter().map(String::as_str), options).await?;
    let mut quorum = Quorum::builder(voters).names(names);
    if let Some(node_timeout) = node_timeout {
        quorum = quorum.node_timeout(node_timeout);
    }
    quorum.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_server_is_no_majority() {
        for url in ["redlock://user:s3cret@h1:6379/", "redlocks://user:s3cret@h1/2?max_ttl=10s"] {
            let Err(error) = connect(url).await else { panic!("{url} was accepted") };
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{url}");
            let text = error.to_string();
            assert!(
                text.contains("name three, or a larger odd number,") && text.contains("`redis://` for one"),
                "{text}"
            );
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
