//! Checks that the page about the protocol and the models name the same rules.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../lock-core/src/backend/redis/protocol.md");

/// Returns the variants of `enum Rule` in the source of a model.
fn rules(source: &str) -> impl Iterator<Item = &str> {
    let (_, body) = source.split_once("enum Rule {").expect("a model has rules");
    let body = body.split_once("\n}").map_or(body, |(body, _)| body);
    body.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('/'))
        .filter_map(|line| line.strip_suffix(','))
}

#[test]
fn every_rule_is_on_the_page_and_the_page_names_no_other() {
    let models = [include_str!("protocol.rs"), include_str!("fencing.rs")];
    let modelled: BTreeSet<_> = models.into_iter().flat_map(rules).collect();
    let bold = PAGE.split("**").skip(1).step_by(2);
    let told: BTreeSet<_> = bold.filter(|word| word.chars().all(char::is_alphanumeric)).collect();
    assert!(modelled.len() > 20, "the rules were not found in the sources: {modelled:?}");
    assert_eq!(told, modelled);
}
