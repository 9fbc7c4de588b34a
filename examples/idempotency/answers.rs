//! The stored answers. A real service keeps them in a table, and writes them in one transaction with the payments.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::StatusCode;
use lock_core::FencingToken;

/// The answer to one key.
#[derive(Clone)]
pub(crate) struct Answer {
    /// The body of the request. The same key with another body is a mistake of the client.
    pub(crate) request: Bytes,
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// All answers, by key. A real service deletes them after about a day, and documents this time for its clients.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<String, (FencingToken, Answer)>>);

impl Answers {
    pub(crate) fn get(&self, key: &str) -> Option<Answer> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).map(|(_, answer)| answer.clone())
    }

    /// Stores an answer, if no later holder of the lock has stored one: `INSERT .. WHERE fence < $token`.
    pub(crate) fn put(&self, key: String, token: FencingToken, answer: Answer) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.get(&key).is_none_or(|(last, _)| *last < token) {
            answers.insert(key, (token, answer));
        }
    }
}
