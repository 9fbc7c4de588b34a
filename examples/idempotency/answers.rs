//! What was answered, and to what: in a real service a table beside the payments, written in one transaction with them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::StatusCode;
use lock_core::FencingToken;

/// The answer to one key.
#[derive(Clone)]
pub(crate) struct Answer {
    /// What was asked for: the same key with something else is a mistake of the client.
    pub(crate) request: Bytes,
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// All answers. A real service forgets them after a day or so, and says that to its clients.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<String, (FencingToken, Answer)>>);

impl Answers {
    pub(crate) fn get(&self, key: &str) -> Option<Answer> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).map(|(_, answer)| answer.clone())
    }

    /// Keeps an answer, unless a later holder of the lock has written one: `INSERT .. WHERE fence < $token`.
    pub(crate) fn put(&self, key: String, token: FencingToken, answer: Answer) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.get(&key).is_none_or(|(last, _)| *last < token) {
            answers.insert(key, (token, answer));
        }
    }
}
