//! Finds contradictions between the options of a layer.

use lock_core::strategy::{Contention, Decision, Strategy};
use lock_core::{Kind, LockError, LockErrorKind, Result};

use super::methods::Methods;
use super::options::Options;
use crate::answer::LONGEST;
use crate::key::Keys;

/// Refuses contradictions between the options that only a layer has. `Config::check_sample` checks the options that a
/// lock request also has. `strategy` is `None` if the strategy comes from the profile.
pub(super) fn options(keys: &Keys, options: &Options, strategy: Option<&dyn Strategy>) -> Result<()> {
    waiting(options, strategy)?;
    kind(keys, options)?;
    requests(keys, options)?;
    options.answers.check().map_err(invalid)
}

fn invalid(contradiction: String) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, contradiction)
}

fn waiting(options: &Options, strategy: Option<&dyn Strategy>) -> Result<()> {
    let tries_again =
        |strategy: &dyn Strategy| matches!(strategy.decide(&Contention::new()), Decision::RetryAfter(_));
    let nobody_waits = match strategy {
        Some(strategy) => !tries_again(strategy),
        None => options.wait.is_none() && options.strategy.is_none() && options.profile.is_none(),
    };
    match options.max_waiters {
        Some(0) => {
            Err(invalid("max_waiters is 0, so no request could wait: remove it, and `wait` too".to_owned()))
        }
        Some(max) if nobody_waits => Err(invalid(format!(
            "max_waiters is {max}, but no request waits: add `wait` or a `strategy` that waits, or remove it"
        ))),
        _ => Ok(()),
    }
}

fn kind(keys: &Keys, options: &Options) -> Result<()> {
    let Some(kind) = options.kind else { return Ok(()) };
    if matches!(keys, Keys::All { .. }) && !matches!(kind, Kind::Reentrant | Kind::Write) {
        return Err(invalid(format!(
            "kind is {kind}, but several keys have one holder each: remove `kind`, or lock one `key`"
        )));
    }
    Ok(())
}

fn requests(keys: &Keys, options: &Options) -> Result<()> {
    if keys.template().is_empty() {
        return Err(invalid(
            "the name of the `key_fn` is empty: spans, metrics and the log need one".to_owned(),
        ));
    }
    if matches!(&options.methods, Methods::Only(methods) if methods.is_empty()) {
        return Err(invalid(
            "`methods` is empty, so no request would be locked: name a method, or remove it".to_owned(),
        ));
    }
    if options.after_body == Some(0) {
        return Err(invalid(
            "after_body is 0, so every body would be too large: give it a limit, or remove it".to_owned(),
        ));
    }
    if let Some(after) = options.retry_after.filter(|after| *after > LONGEST) {
        return Err(invalid(format!("retry_after is {after:?}: a client is told {LONGEST:?} at most")));
    }
    if options.max_keys() == 0 {
        return Err(invalid(
            "max_keys is 0, so every request would be refused: set it to at least 1".to_owned(),
        ));
    }
    if options.max_keys() < keys.count() {
        return Err(invalid(format!(
            "max_keys is {}, but each request locks up to {}: set it to at least that number",
            options.max_keys(),
            keys.count()
        )));
    }
    Ok(())
}
