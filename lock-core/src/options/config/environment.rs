//! Reads profiles from environment variables.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::mistake::{Mistakes, Origin};
use super::written::{BACKOFF_BASE, BACKOFF_MAX, Entry, Value, Written, words};
use crate::words::suggest::{list, nearest};

/// The prefix of the variables. The prefix is followed by the name of a profile, an underscore and an option.
const PREFIX: &str = "LOCK_PROFILE_";

/// Reads the profiles of `variables`. `known` contains the names of the profiles of the file and of the program. An
/// empty variable counts as not set. A wrong variable is reported as a mistake, and the other variables are still read.
pub(super) fn read(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    known: &BTreeSet<&str>,
    mistakes: &mut Mistakes,
) -> BTreeMap<String, Written> {
    let mut profiles: BTreeMap<String, Written> = BTreeMap::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let origin = Origin::Variable(name.to_owned());
        let Ok(value) = value.into_string() else {
            mistakes.add(Some(&origin), "the value is not text");
            continue;
        };
        if value.is_empty() {
            continue;
        }
        match meaning(&name[PREFIX.len()..], known) {
            Ok((profile, word)) => {
                let written = profiles.entry(profile).or_default();
                written.begin.get_or_insert_with(|| origin.clone());
                written.entries.insert(word, Entry { origin, value: Value::Variable(value) });
            }
            Err(text) => mistakes.add(Some(&origin), text),
        }
    }
    profiles
}

/// Returns the profile and the option that a variable names. `rest` is the name of the variable without the prefix.
fn meaning(rest: &str, known: &BTreeSet<&str>) -> Result<(String, &'static str), String> {
    let of_known = |profile: &&str| {
        let word = rest.strip_prefix(&upper(profile))?.strip_prefix('_')?;
        parts().find(|part| upper(part) == word).map(|part| ((*profile).to_owned(), part))
    };
    let mut meant: Vec<_> = known.iter().filter_map(of_known).collect();
    match (meant.pop(), &meant[..]) {
        (Some(one), []) => return Ok(one),
        (Some((profile, _)), others) => {
            let others = others.iter().map(|(profile, _)| profile.as_str());
            let all = list(others.chain([profile.as_str()]));
            return Err(format!("it can mean several profiles: {all}; rename all but one"));
        }
        (None, _) => {}
    }
    let of_new = |word: &'static str| {
        let profile = rest.strip_suffix(&upper(word))?.strip_suffix('_')?;
        (!profile.is_empty()).then(|| (profile.to_ascii_lowercase(), word))
    };
    // The longest option is tried first. Otherwise a part of the option could count as a part of the profile's name.
    let mut longest: Vec<_> = parts().collect();
    longest.sort_by_key(|word| std::cmp::Reverse(word.len()));
    longest.into_iter().find_map(of_new).ok_or_else(|| no_option(rest, known))
}

/// Returns the error text for a variable whose name does not end with an option.
fn no_option(rest: &str, known: &BTreeSet<&str>) -> String {
    let words: Vec<String> = parts().map(upper).collect();
    let all = || words.iter().map(String::as_str);
    let behind_known = known.iter().find_map(|profile| {
        let word = rest.strip_prefix(&upper(profile))?.strip_prefix('_')?;
        Some(rest.len() - word.len())
    });
    // If the name begins with no known profile, the option may begin after any underscore.
    let starts = || rest.match_indices('_').map(|(at, _)| at + 1);
    let near = match behind_known {
        Some(start) => nearest(&rest[start..], all()).map(|near| (start, near)),
        None => starts().find_map(|start| nearest(&rest[start..], all()).map(|near| (start, near))),
    };
    let near = near
        .map(|(start, near)| format!("; did you mean `{PREFIX}{}{near}`?", &rest[..start]))
        .unwrap_or_default();
    format!("it ends with no option{near}; options: {}", list(all()))
}

/// Returns the words that can end the name of a variable.
fn parts() -> impl Iterator<Item = &'static str> {
    words().filter(|word| *word != "backoff").chain([BACKOFF_BASE, BACKOFF_MAX])
}

/// Returns a name in the form that variables use: in upper case, with an underscore in place of every character that is
/// not a letter or a digit.
pub(super) fn upper(name: &str) -> String {
    let each = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    name.chars().map(each).collect()
}
