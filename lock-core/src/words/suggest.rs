//! Suggests the word of a list that is most similar to a wrong word, for an error text.

/// The minimum similarity for a suggestion (Jaro-Winkler, 0 to 1). Less similar suggestions would confuse.
const SIMILAR: f64 = 0.7;

/// Returns the candidate that is most similar to `word`, if it is similar enough.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Returns `; did you mean 'x'?`, or an empty text if no candidate is similar.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// Returns the words in backticks, separated by commas.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        let words = ["key", "ttl", "strategy", "on_lost"];
        for (word, near) in [
            ("tll", Some("ttl")),
            ("stratgy", Some("strategy")),
            ("onlost", Some("on_lost")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), near, "{word}");
        }
    }

    #[test]
    fn a_list_quotes_each_word() {
        assert_eq!(list(["a", "b"]), "`a`, `b`");
        assert_eq!(did_you_mean("tll", ["ttl"]), "; did you mean `ttl`?");
        assert_eq!(did_you_mean("x", ["ttl"]), "");
    }
}
