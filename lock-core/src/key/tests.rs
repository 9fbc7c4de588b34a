//! Tests the guarantees of the whole module: the outputs do not change, and different values give different keys.

mod clashing;

use std::fmt;
use std::fmt::Write;

use proptest::prelude::*;

use super::encode::{Boundary, Encoder};
use super::*;
use crate::error::{LockError, LockErrorKind};

fn key(text: &str) -> String {
    Key::new(text).unwrap().as_str().to_owned()
}

/// Processes with different versions of this crate must agree on these texts. A change breaks locks that are held
/// during an upgrade.
#[test]
fn golden_outputs() {
    let rendered =
        |value: &str| KeyBuilder::new().literal("order:").value(&value).finish().unwrap().to_string();
    for (value, expected) in [
        ("42", "order:42"),
        ("", "order:"),
        ("AZaz09._~-", "order:AZaz09._~-"),
        ("a:b", "order:a%3Ab"),
        ("a/b c%2F+#", "order:a%2Fb%20c%252F%2B%23"),
        ("{é}", "order:%7B%C3%A9%7D"),
        ("\0\n\u{7f}", "order:%00%0A%7F"),
        ("€😀", "order:%E2%82%AC%F0%9F%98%80"),
    ] {
        assert_eq!(rendered(value), expected);
    }
    let long = rendered(&"ab/".repeat(200));
    assert_eq!(long, format!("order:{}ab%#{}", "ab%2F".repeat(94), "c69b1d912b792d1aada5953022dd5803"));
    for (text, expected) in [
        ("x".repeat(512), "x".repeat(512)),
        ("x".repeat(513), format!("{}#35ade0090e64e74d6ad04204009c23a4", "x".repeat(479))),
        // These texts have characters of two and three bytes. The prefix ends before the character that does not fit.
        ("é".repeat(300), format!("{}#7250b66610f8b7dbd6f5e5426d2143bc", "é".repeat(239))),
        ("€".repeat(200), format!("{}#f31cfff8b432ed05512cd9a8823fd990", "€".repeat(159))),
    ] {
        assert_eq!(key(&text), expected);
    }
}

#[test]
fn golden_outputs_in_a_namespace() {
    let shop = |text: &str| Key::new(text).unwrap().in_namespace("shop").as_str().to_owned();
    assert_eq!(shop("order:42"), "shop:order:42");
    assert_eq!(shop(&"x".repeat(507)), format!("shop:{}", "x".repeat(507)));
    assert_eq!(shop(&"x".repeat(512)), format!("shop:{}#95f780757babdb2eef2f69a640c763f9", "x".repeat(474)));
    assert_eq!(shop(&"x".repeat(513)), format!("shop:{}#19ff323ca95a460811e82eda94d53634", "x".repeat(474)));
    assert_eq!(Key::new("order:42").unwrap().in_namespace("").as_str(), "order:42");
}

#[test]
fn nothing_is_no_key() {
    for result in [
        "".into_key(),
        String::new().into_key(),
        (&String::new()).into_key(),
        KeyBuilder::new().finish(),
        KeyBuilder::new().literal("").value(&"").finish(),
        KeyTemplate::parse("<id>").unwrap().render(|_| Ok("")),
    ] {
        assert_eq!(result.unwrap_err().kind(), LockErrorKind::InvalidKey);
    }
}

#[test]
fn what_can_name_a_lock_names_the_same_lock() {
    let key = Key::new("order:42").unwrap();
    let text = "order:42".to_owned();
    assert_eq!("order:42".into_key().unwrap(), key);
    assert_eq!((&text).into_key().unwrap(), key);
    assert_eq!(text.into_key().unwrap(), key);
    assert_eq!((&key).into_key().unwrap(), key);
    assert_eq!(Ok::<_, LockError>(key.clone()).into_key().unwrap(), key);
    assert_eq!(key.clone().into_key().unwrap(), key);
}

#[test]
fn a_display_that_fails_is_an_error() {
    struct Broken;
    impl fmt::Display for Broken {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half")?;
            Err(fmt::Error)
        }
    }
    let error = KeyBuilder::new().literal("order:").value(&Broken).finish().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidKey);
}

#[test]
fn an_error_of_the_lookup_is_passed_on() {
    let template = KeyTemplate::parse("order:<id>").unwrap();
    let error = template
        .render(|name| Err::<&str, _>(LockError::new(LockErrorKind::InvalidRequest, format!("no {name}"))))
        .unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("no id"), "{error}");
}

#[test]
fn a_mark_between_placeholders_is_encoded_in_the_second_value() {
    let render = |text: &str| {
        let template = KeyTemplate::parse(text).unwrap();
        template.render(|name| Ok(if name == "a" { "x-y.z" } else { "1-2.3" })).unwrap().to_string()
    };
    assert_eq!(render("<a>:<b>"), "x-y.z:1-2.3");
    assert_eq!(render("<a>-<b>"), "x-y.z-1%2D2.3");
    assert_eq!(render("<a>.v<b>"), "x-y.z.v1-2%2E3");
    assert_eq!(render("<a>.v-<b>"), "x-y.z.v-1%2D2.3", "the last mark");
    assert_eq!(render("<a>-:<b>"), "x-y.z-:1-2.3");
}

#[test]
fn a_builder_refuses_values_that_run_together() {
    for between in ["", "x", "%", "2D"] {
        let result = KeyBuilder::new().value(&"a").literal(between).value(&"b").finish();
        assert_eq!(result.unwrap_err().kind(), LockErrorKind::InvalidKey, "{between:?}");
    }
}

/// Values that imitate the prefix and the hash of a shortened key must not result in that key.
#[test]
fn a_shortened_key_cannot_be_spelt() {
    let template = KeyTemplate::parse("<a>#<b>").unwrap();
    let render = |a: &str, b: &str| template.render(|name| Ok(if name == "a" { a } else { b })).unwrap();
    let long = render(&"x".repeat(600), "y");
    let (prefix, hash) = long.as_str().rsplit_once('#').unwrap();
    assert_ne!(render(prefix, hash), long);
    for namespace in ["s", "shop", &"n".repeat(64)] {
        let whole = long.in_namespace(namespace);
        let tail = whole.as_str().strip_prefix(&format!("{namespace}:")).unwrap();
        let (prefix, hash) = tail.rsplit_once('#').unwrap();
        assert_ne!(render(prefix, hash).in_namespace(namespace), whole, "{namespace}");
        // This text is shortened only because the namespace makes it longer than 512 bytes.
        let plain = render(&"x".repeat(505), "y");
        let whole = plain.in_namespace(namespace);
        if let Some((prefix, hash)) = whole.as_str()[namespace.len() + 1..].rsplit_once('#')
            && hash.len() == 32
        {
            assert_ne!(render(prefix, hash).in_namespace(namespace), whole, "{namespace}");
        }
    }
}

#[test]
fn the_text_of_a_key_is_the_key() {
    let long = Key::new(&"x".repeat(600)).unwrap();
    assert_eq!(Key::new(long.as_str()).unwrap(), long);
    let whole = long.in_namespace("shop");
    let rest = whole.as_str().strip_prefix("shop:").unwrap();
    assert_eq!(Key::new(rest).unwrap().in_namespace("shop"), whole);
    let hash = "d41d8cd98f00b204e9800998ecf8427e";
    let commit = KeyBuilder::new().literal("commit#").value(&hash).finish().unwrap();
    assert_eq!(commit.as_str(), format!("commit#{hash}"), "short texts are never mistaken");
}

fn encode(value: &str) -> String {
    let mut text = String::new();
    write!(Encoder::new(&mut text, Boundary::Hard), "{value}").unwrap();
    text
}

/// Decodes an encoded value. This is possible because different values have different encodings.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Generates arbitrary texts, and texts that consist only of characters that occur in separators and encodings.
fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a2D:%#.~<>-]{0,6}",
        3 => any::<String>(),
        2 => "[a:-]{470,520}",
        1 => Just("é/".repeat(3_334)),
    ]
}

/// Generates separators that a template accepts. `<` is written twice.
fn separators() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a2D:%#.~>-]{0,3}[:#/.~-][a2D:%.-]{0,2}",
        Just("<<".to_owned()),
        any::<char>().prop_filter_map("a separator", |char| (char != '<'
            && !char.is_ascii_alphanumeric()
            && char != '%')
            .then(|| char.to_string()))
    ]
}

fn with_builder(separators: &[String; 2], values: &[String; 3]) -> Key {
    KeyBuilder::new()
        .literal("k")
        .value(&values[0])
        .literal(&separators[0].replace("<<", "<"))
        .value(&values[1])
        .literal(&separators[1].replace("<<", "<"))
        .value(&values[2])
        .finish()
        .unwrap()
}

fn with_template(separators: &[String; 2], values: &[String; 3]) -> Key {
    let text = format!("k<0>{}<1>{}<2>", separators[0], separators[1]);
    let template = KeyTemplate::parse(&text).unwrap();
    template.render(|name| Ok(&values[name.parse::<usize>().unwrap()])).unwrap()
}

/// Splits the concatenated values at other places, so that only the boundaries differ.
fn resplit(values: &[String; 3], first: usize, second: usize) -> [String; 3] {
    let all: Vec<char> = values.concat().chars().collect();
    let first = first % (all.len() + 1);
    let second = first + second % (all.len() - first + 1);
    [&all[..first], &all[first..second], &all[second..]].map(|part| part.iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn the_encoder_is_injective_and_keeps_to_its_alphabet(value in values()) {
        let text = encode(&value);
        prop_assert!(text.bytes().all(encode::can_be_in_value));
        prop_assert_eq!(decode(&text), value);
    }

    #[test]
    fn different_values_give_different_keys(
        separators in [separators(), separators()],
        values in [values(), values(), values()],
        others in [values(), values(), values()],
        cuts in (any::<usize>(), any::<usize>()),
        namespace in "[a-z]{0,64}",
    ) {
        let resplit = resplit(&values, cuts.0, cuts.1);
        let key = with_builder(&separators, &values);
        prop_assert!(key.as_str().len() <= Key::MAX_LEN);
        for other in [others, resplit] {
            let same = other == values;
            let other = with_builder(&separators, &other);
            prop_assert_eq!(key == other, same);
            prop_assert_eq!(key.in_namespace(&namespace) == other.in_namespace(&namespace), same);
        }
    }

    #[test]
    fn separators_of_marks_keep_values_apart(
        separators in ["[.-]{1,2}", "[a.:-]{0,1}[.-]"],
        values in ["[a.-]{0,3}", "[a.-]{0,3}", "[a.-]{0,3}"],
        others in ["[a.-]{0,3}", "[a.-]{0,3}", "[a.-]{0,3}"],
        moved in any::<usize>(),
    ) {
        let key = with_builder(&separators, &values);
        prop_assert_eq!(key == with_builder(&separators, &others), values == others);
        // This is the most likely collision: the same text, split at another occurrence of the separator.
        let text = format!("{}{}{}", values[0], separators[0], values[1]);
        let places: Vec<_> = text.match_indices(&*separators[0]).collect();
        let (place, _) = places[moved % places.len()];
        let other = [text[..place].to_owned(), text[place + separators[0].len()..].to_owned(), values[2].clone()];
        prop_assert_eq!(key == with_builder(&separators, &other), values == other);
    }

    #[test]
    fn a_template_and_a_builder_give_the_same_key(
        separators in [separators(), separators()], values in [values(), values(), values()],
    ) {
        prop_assert_eq!(with_template(&separators, &values), with_builder(&separators, &values));
    }

    #[test]
    fn any_text_is_a_key_within_the_limit(text in any::<String>(), times in 1..200_usize, namespace in "[a-z]{0,64}") {
        prop_assume!(!text.is_empty());
        let key = Key::new(&text.repeat(times)).unwrap();
        prop_assert!(key.as_str().len() <= Key::MAX_LEN);
        prop_assert_eq!(&Key::new(key.as_str()).unwrap(), &key);
        prop_assert!(key.in_namespace(&namespace).as_str().len() <= Key::MAX_LEN);
    }

    #[test]
    fn no_template_panics_the_parser(text in prop_oneof!["[a<>:é]{0,12}", any::<String>()]) {
        if let Ok(template) = KeyTemplate::parse(&text) {
            prop_assert_eq!(template.as_str(), &*text);
            let rendered = template.render(|name| Ok(name.to_owned()));
            prop_assert_eq!(rendered.is_err(), false, "{}", text);
        }
    }
}

#[test]
fn a_key_shows_its_text_alone() {
    assert_eq!(format!("{:?}", Key::new("order:42").unwrap()), "Key(\"order:42\")");
}
