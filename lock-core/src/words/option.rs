//! Lists the names of the options, with an example of the syntax of each.

/// The name of an option, and the example that an error shows.
pub(crate) type Form = (&'static str, &'static str);

/// The options of the attribute.
pub(crate) const OPTIONS: &[Form] = &[
    ("key", "key = \"order:<id>\""),
    ("keys", "keys = [\"a:<x>\", \"b:<y>\"]"),
    ("kind", "kind = \"fair\""),
    ("permits", "permits = 3"),
    ("take", "take = 2"),
    ("ttl", "ttl = \"500ms\""),
    ("strategy", "strategy = \"retry\""),
    ("wait", "wait = \"2s\""),
    ("backoff", "backoff(base = \"10ms\", max = \"200ms\")"),
    ("max_waiters", "max_waiters = 64"),
    ("fallback", "fallback = pay_later"),
    ("renew", "renew = false"),
    ("renew_every", "renew_every = \"1s\""),
    ("max_hold", "max_hold = \"10m\""),
    ("min_hold", "min_hold = \"1s\""),
    ("linger", "linger = \"5ms\""),
    ("on_lost", "on_lost = \"finish\""),
    ("release", "release = \"background\""),
    ("handle", "handle = lock"),
    ("label", "label = \"pay\""),
    ("profile", "profile = \"checkout\""),
    ("manager", "manager = self.locks"),
    ("crate", "crate = ::lock_core"),
];

/// The [`OPTIONS`] that belong to one function or one request, and never to a profile.
pub(crate) const OF_ONE_CALL: &[&str] = &["key", "keys", "fallback", "handle", "profile", "manager", "crate"];

/// The options that a configuration can set in a profile, but that the attribute does not have.
pub(crate) const OF_PROFILES_ONLY: &[Form] =
    &[("fencing", "fencing = true"), ("reentrant", "reentrant = false")];

/// The duration options that accept zero, which disables the option.
pub(crate) const ZERO_SWITCHES_OFF: &[&str] = &["linger"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_names_options() {
        for word in OF_ONE_CALL.iter().chain(ZERO_SWITCHES_OFF) {
            assert!(OPTIONS.iter().any(|(option, _)| option == word), "{word}");
        }
        for (word, _) in OF_PROFILES_ONLY {
            assert!(OPTIONS.iter().all(|(option, _)| option != word), "{word}");
        }
    }

    #[test]
    fn each_form_begins_with_its_name() {
        for (name, form) in OPTIONS.iter().chain(OF_PROFILES_ONLY) {
            assert!(form.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '('])), "{form}");
        }
    }
}
