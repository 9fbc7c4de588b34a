//! Lists names that other libraries use for an option, and names that users may guess. These names are not accepted.
//! The errors suggest the right option, or explain why the option does not exist.

/// Words with the same meaning, and the hint that an error shows for each of them.
type Row = (&'static [&'static str], &'static str);

/// Returns the hint for `word`, which was used as an option.
pub(crate) fn option(word: &str) -> Option<&'static str> {
    find(OPTIONS, word)
}

/// Returns the hint for `word`, which was used as a strategy.
pub(crate) fn strategy(word: &str) -> Option<&'static str> {
    find(STRATEGIES, word)
}

/// Returns the hint for `word`, which was used as a kind but names a strategy.
pub(crate) fn kind(word: &str) -> Option<&'static str> {
    find(KINDS, word)
}

fn find(table: &[Row], word: &str) -> Option<&'static str> {
    table.iter().find(|(words, _)| words.contains(&word)).map(|(_, text)| *text)
}

const OPTIONS: &[Row] = &[
    (
        &["id", "lock", "lock_key", "lock_name", "name", "resource", "template"],
        "; did you mean `key`, what is locked?",
    ),
    (&["all", "names", "resources"], "; did you mean `keys`, what is locked?"),
    (
        &[
            "duration",
            "ex",
            "expire",
            "expires",
            "expiry",
            "expiration",
            "lease",
            "lease_duration",
            "lease_time",
            "lifetime",
            "lock_at_most_for",
            "px",
            "ttl_ms",
        ],
        "; did you mean `ttl`, how long the lock stays taken after its process has died?",
    ),
    (
        &["lock_timeout", "timeout", "timeout_ms"],
        "; did you mean `wait`, how long a call waits for the lock, or `ttl`, how long it stays taken after its process has died?",
    ),
    (
        &[
            "acquire_timeout",
            "blocking_timeout",
            "max_wait",
            "wait_for",
            "wait_time",
            "wait_timeout",
            "within",
        ],
        "; did you mean `wait`, how long a call waits for the lock?",
    ),
    (
        &["attempts", "max_attempts", "max_retries", "retries", "retry", "retry_count", "tries"],
        ": tries are not counted; `wait = \"2s\"` limits how long a call waits, and `strategy = \"fail_fast\"` tries once",
    ),
    (
        &[
            "delay",
            "interval",
            "jitter",
            "poll_interval",
            "retry_after",
            "retry_delay",
            "retry_interval",
            "sleep",
        ],
        "; did you mean `backoff(base = \"10ms\", max = \"200ms\")`, the pauses between tries?",
    ),
    (
        &["block", "blocking", "nonblocking", "nowait", "no_wait", "on_contention", "on_held", "try_lock"],
        "; did you mean `strategy`? `\"wait\"` waits for ever, `\"retry\"` for a while, `\"fail_fast\"` and `\"skip\"` not at \
         all",
    ),
    (
        &["fail_fast", "skip", "retry_or_skip"],
        ": it is a strategy; write it as a string, `strategy = \"..\"`",
    ),
    (
        &["fence", "fenced", "fencing", "fencing_token", "token"],
        ": the handle gives the token; write `handle = lock`, and `lock.fencing_token().await?` in the body",
    ),
    (
        &["as", "bind", "ctx", "guard", "lock_handle"],
        "; did you mean `handle`, a name for the lock in the body?",
    ),
    (
        &[
            "exclusive",
            "fair",
            "fifo",
            "lock_type",
            "mode",
            "mutex",
            "read",
            "reentrant",
            "shared",
            "type",
            "write",
        ],
        "; did you mean `kind`? It is `\"reentrant\"`, `\"fair\"`, `\"read\"`, `\"write\"` or `\"semaphore\"`",
    ),
    (
        &["concurrency", "count", "limit", "max_concurrency", "semaphore"],
        "; did you mean `kind = \"semaphore\"` with `permits`, how many calls may run at once?",
    ),
    (
        &["acquire", "cost", "slots", "units", "weight"],
        "; did you mean `take`, how many permits of a semaphore a call takes?",
    ),
    (
        &["capacity", "max_queue", "queue", "queue_size"],
        "; did you mean `max_waiters`, how many calls may wait?",
    ),
    (
        &["auto_extend", "auto_renew", "extend", "heartbeat", "keep_alive", "renewal", "watchdog"],
        "; did you mean `renew`? The lease is renewed after a third of its `ttl`, unless you write `renew = false`",
    ),
    (
        &["deadline", "max_duration", "max_time"],
        "; did you mean `max_hold`, how long the lock is held at most?",
    ),
    (
        &["cooldown", "lock_at_least_for", "min_time"],
        "; did you mean `min_hold`, how long the key stays taken at least?",
    ),
    (
        &["keep_alive_after", "keep_for", "stay", "sticky", "warm"],
        "; did you mean `linger`, how long the lock stays at hand after its release?",
    ),
    (&["on_loss", "when_lost"], "; did you mean `on_lost`, what happens to the body when the lock is lost?"),
    (
        &["async_release", "background", "on_end", "on_release", "release_mode", "unlock"],
        "; did you mean `release`? `\"background\"` returns before the store has answered the release",
    ),
    (
        &["fallback_method", "on_busy", "on_fail", "on_failure", "on_timeout", "or_else"],
        "; did you mean `fallback`, the function that is called when others hold the lock?",
    ),
    (
        &["err", "error", "error_type", "map_err"],
        ": implement `From<LockError>` for the error of the function, or `FromLockError` for its return type",
    ),
    (
        &["backend", "client", "connection", "locks", "pool", "redis", "store", "url"],
        "; did you mean `manager`? The store is that of the manager, `LockManager::connect(\"redis://..\")`",
    ),
    (
        &["namespace", "prefix"],
        ": the manager has the namespace, so that all functions of a program share it",
    ),
    (&["config", "defaults", "preset"], "; did you mean `profile`, where the defaults come from?"),
    (&["description", "purpose", "reason"], "; did you mean `label`, what the lock is for?"),
    (
        &["client_id", "holder", "instance", "node", "owner", "worker"],
        ": the store shows the host and the process of each holder, and its `label`",
    ),
    (
        &["condition", "if", "unless", "when"],
        ": write two functions, one of which calls the other; the name then says whether it locks",
    ),
];

const STRATEGIES: &[Row] = &[
    (&["fair"], ": it is a kind; write `kind = \"fair\"`, and let `strategy` say how long to wait"),
    (&["fifo", "queue"], "; did you mean `kind = \"fair\"`, the order of arrival?"),
    (
        &["read", "shared"],
        ": it is a kind; write `kind = \"read\"`, and let `strategy` say what to do while another call writes",
    ),
    (
        &["write"],
        ": it is a kind; write `kind = \"write\"`, and let `strategy` say what to do while other calls read or write",
    ),
    (&["reentrant"], ": it is a kind, and the default; remove it, or write `kind = \"reentrant\"`"),
    (&["semaphore", "permits"], ": it is a kind; write `kind = \"semaphore\"` with `permits = 3`"),
    (
        &["fail", "error", "none", "no_wait", "nowait", "once", "reject", "try", "try_lock", "immediate"],
        "; did you mean `fail_fast`?",
    ),
    (&["ignore", "drop", "pass", "noop"], "; did you mean `skip`?"),
    (&["block", "blocking", "forever", "infinite", "park"], "; did you mean `wait`?"),
    (
        &["backoff", "exponential", "poll", "polling", "spin", "timeout", "bounded", "default"],
        "; did you mean `retry`, which tries again until `wait` is over?",
    ),
];

const KINDS: &[Row] = &[
    (
        &["fail_fast", "skip", "retry", "retry_or_skip"],
        ": it is a strategy; write it as `strategy`, and let `kind` say which calls may run at the same time",
    ),
    (
        &["wait"],
        ": it is a strategy; write `strategy = \"wait\"`, and let `kind` say which calls may run at the same time",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_leads_to_the_option_that_does_it() {
        for (words, leads_to) in [
            (&["name", "id", "lock", "resource"][..], "`key`"),
            (&["lease", "expiry", "expire", "timeout", "lock_at_most_for"], "`ttl`"),
            (&["timeout", "max_wait", "blocking_timeout"], "`wait`"),
            (&["retries", "max_attempts"], "`wait = \"2s\"`"),
            (&["blocking", "nowait"], "`strategy`"),
            (&["fencing", "fencing_token", "token"], "`handle = lock`"),
            (&["fair", "shared", "mode"], "`kind`"),
            (&["lock_at_least_for"], "`min_hold`"),
            (&["background", "unlock"], "`release`"),
            (&["redis", "client"], "`manager`"),
        ] {
            for word in words {
                assert!(
                    option(word).is_some_and(|text| text.contains(leads_to)),
                    "{word}: {:?}",
                    option(word)
                );
            }
        }
        assert_eq!((option("banana"), strategy("banana"), kind("banana")), (None, None, None));
    }

    #[test]
    fn each_word_is_listed_once() {
        for table in [OPTIONS, STRATEGIES, KINDS] {
            let words: Vec<_> = table.iter().flat_map(|(words, _)| *words).collect();
            for word in &words {
                assert_eq!(words.iter().filter(|other| other == &word).count(), 1, "{word}");
            }
        }
    }

    #[test]
    fn each_text_goes_on_from_the_word() {
        for (words, text) in [OPTIONS, STRATEGIES, KINDS].concat() {
            assert!(["; did you mean `", ": "].iter().any(|begin| text.starts_with(begin)), "{words:?}");
        }
    }
}
