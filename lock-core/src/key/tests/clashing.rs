//! Compares the result of `KeyTemplate::clash` with the keys that templates really render.

use std::collections::HashMap;

use super::decode;
use crate::key::{Key, KeyTemplate, Values};

fn template(text: &str) -> KeyTemplate {
    KeyTemplate::parse(text).unwrap()
}

#[test]
fn templates_clash_where_a_value_can_spell_what_the_other_one_fixes() {
    for (one, other, key) in [
        // These examples are also in the documentation.
        ("job:<name>", "job:nightly", Some("job:nightly")),
        ("order:<id>", "order:<id>.items", Some("order:.items")),
        ("order:<id>", "order:<a>-<b>", Some("order:-")),
        ("job:<name>", "jobs:nightly", None),
        ("order:<id>", "order:<id>:items", None),
        ("order:<id>", "order:<a>/<b>", None),
        ("order:<id>", "order#<id>", None),
        // These templates have the same fixed texts.
        ("account:<from>", "account:<to>", None),
        ("a<<b", "a<<b", None),
        ("<a>:<b>", "<tenant>:<id>", None),
        // These templates have encoded characters, and characters that no value contains.
        ("a:<x>", "a:b%3Ac", Some("a:b%3Ac")),
        ("a:<x>", "a:b%3ac", None),
        ("a:<x>", "a:b%41", None),
        ("a:<x>", "a:é", None),
        ("a:<x>", "a:b%", None),
        ("a:<x>", "a:%3<y>", Some("a:%3A")),
        ("a:%<x>", "a:<y>", Some("a:%00")),
        // A mark between two values is encoded in the second value.
        ("<a>-<b>", "x-y-z", Some("x-y-z")),
        ("<a>-<b>", "x.y", None),
        ("<a>-<b>:<c>", "<a>:<b>-<c>", Some("-:-")),
        ("k-<a>", "<a>-<b>-", Some("k--")),
        ("k:<a>", "<a>.<b>-", None),
        ("<a>", "<a>:", None),
        ("<a>", "<a>.", Some(".")),
    ] {
        let (one, other) = (template(one), template(other));
        assert_eq!(one.clash(&other).as_deref(), key, "{one} {other}");
        assert_eq!(other.clash(&one).is_some(), key.is_some(), "{other} {one}");
    }
}

#[test]
fn values_that_cannot_spell_it_do_not_clash() {
    use Values::{Signed, Text, Unsigned, Uuid};
    for (values, other, clashes) in [
        (Unsigned, "k:nightly", false),
        (Unsigned, "k:7", true),
        (Unsigned, "k:", false),
        (Unsigned, "k:-7", false),
        (Unsigned, "k:<x>.items", false),
        (Unsigned, "k:0<x>", true),
        (Signed, "k:-7", true),
        (Signed, "k:+7", false),
        (Uuid, "k:67e55044-10b1-426f-9247-bb680e5fe0c8", true),
        (Uuid, "k:nightly", false),
        (Uuid, "k:", false),
        (Text, "k:nightly", true),
        (Text, "k:", true),
    ] {
        let values = |name: &str| if name == "id" { values } else { Text };
        let clash = template("k:<id>").clash_with_values(&template(other), values);
        assert_eq!(clash.is_some(), clashes, "{other}: {clash:?}");
    }
    let signed = |_: &str| Signed;
    let clash = template("<a>-<b>").clash_with_values(&template("3--5"), signed);
    assert_eq!(clash, None, "the sign is encoded, as it stands behind the mark");
    assert!(template("<a>-<b>").clash_with_values(&template("3-%2D5"), signed).is_some());
}

/// Returns every template of at most four pieces. Each piece is one character or placeholder.
fn templates() -> Vec<KeyTemplate> {
    let mut texts = vec![String::new()];
    for start in 0.. {
        let Some(text) = texts.get(start).cloned() else { break };
        if text.matches(['<', 'a', '-', ':', '2']).count() < 4 && text.matches('<').count() < 3 {
            texts.extend(["<x>", "a", "-", ":", "%2"].map(|next| format!("{text}{next}")));
        }
    }
    texts.iter().filter_map(|text| KeyTemplate::parse(text).ok()).collect()
}

/// For each pair of templates, compares `clash` with all keys that both render for values of at most two characters.
#[test]
fn whatever_two_templates_render_alike_is_a_clash() {
    let templates = templates();
    let alphabet = ['a', '-', ':', '2', '*'];
    let mut values = vec![String::new()];
    values.extend(alphabet.map(String::from));
    values.extend(alphabet.iter().flat_map(|one| alphabet.map(|other| format!("{one}{other}"))));
    let mut given: HashMap<Key, Vec<usize>> = HashMap::new();
    for (index, template) in templates.iter().enumerate() {
        let places = template.placeholders().count();
        for choice in 0..values.len().pow(u32::try_from(places).unwrap()) {
            let mut rest = choice;
            let rendered = template.render(|_| {
                let value = &values[rest % values.len()];
                rest /= values.len();
                Ok(value)
            });
            let Ok(key) = rendered else { continue };
            let by = given.entry(key).or_default();
            if by.last() != Some(&index) {
                by.push(index);
            }
        }
    }
    let mut pairs: HashMap<(usize, usize), Key> = HashMap::new();
    for (key, by) in given {
        for (at, &one) in by.iter().enumerate() {
            pairs.extend(by[at + 1..].iter().map(|&other| ((one, other), key.clone())));
        }
    }
    assert!(pairs.len() > 1_000, "{}", pairs.len());
    for ((one, other), key) in pairs {
        let (one, other) = (&templates[one], &templates[other]);
        let same = fixed(one) == fixed(other);
        assert_eq!(one.clash(other).is_none(), same, "{one} and {other} both give {key}");
    }
}

/// Checks that both templates can render the key that `clash` returns.
#[test]
fn the_key_of_a_clash_is_given_by_both() {
    let templates = templates();
    let mut clashes = 0;
    for one in templates.iter().step_by(7) {
        for other in templates.iter().step_by(5) {
            let Some(key) = one.clash(other) else { continue };
            clashes += 1;
            for template in [one, other] {
                assert!(
                    gives(template, &key),
                    "{template} does not give {key}, the clash of {one} and {other}"
                );
            }
        }
    }
    assert!(clashes > 300, "{clashes}");
}

fn fixed(template: &KeyTemplate) -> String {
    template.as_str().replace("<x>", "<>")
}

/// Returns whether the template can render `key`, with values that are parts of `key`.
fn gives(template: &KeyTemplate, key: &str) -> bool {
    let places = template.placeholders().count();
    let cuts: Vec<usize> = (0..=key.len()).collect();
    let parts: Vec<&str> =
        cuts.iter().flat_map(|&from| cuts[from..].iter().map(move |&to| &key[from..to])).collect();
    let parts: Vec<String> = parts.into_iter().filter(|part| whole(part)).map(decode).collect();
    (0..parts.len().pow(u32::try_from(places).unwrap())).any(|choice| {
        let mut rest = choice;
        let rendered = template.render(|_| {
            let value = &parts[rest % parts.len()];
            rest /= parts.len();
            Ok(value)
        });
        rendered.is_ok_and(|rendered| rendered.as_str() == key)
    })
}

/// Returns whether `part` contains only complete encodings.
fn whole(part: &str) -> bool {
    part.match_indices('%').all(|(at, _)| {
        let digits = part.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}
