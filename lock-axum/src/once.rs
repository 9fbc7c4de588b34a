//! What the log is told once, where no layer is there to remember it.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The most that is remembered; what comes after is left out.
const MOST: usize = 256;

static TOLD: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Whether this is the first time in this process that `what` is wrong with the program.
pub(crate) fn is_news(what: String) -> bool {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    told.len() < MOST && told.insert(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_news_once_and_not_everything_is_kept() {
        assert!(is_news("a".to_owned()) && !is_news("a".to_owned()));
        let news = (0..1_000).filter(|number| is_news(number.to_string())).count();
        assert_eq!(news, MOST - 1);
    }
}
