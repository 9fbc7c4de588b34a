//! Remembers which messages this process has logged. A layer remembers its own messages. This file is for code without
//! a layer, such as the extractors.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The number of messages that are remembered. Further messages are not written.
const MAX_MESSAGES: usize = 256;

static WRITTEN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Returns whether `message` is written for the first time in this process.
pub(crate) fn is_first(message: String) -> bool {
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    written.len() < MAX_MESSAGES && written.insert(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_first_once_and_not_all_are_remembered() {
        assert!(is_first("a".to_owned()) && !is_first("a".to_owned()));
        let first = (0..1_000).filter(|number| is_first(number.to_string())).count();
        assert_eq!(first, MAX_MESSAGES - 1);
    }
}
