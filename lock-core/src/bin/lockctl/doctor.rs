//! Shows the problems of a store that endanger its locks.

use lock_core::{Finding, Severity};

use crate::args::Store;
use crate::exit::{Exit, Fault};
use crate::out;

/// Prints the findings, and what to do about each problem. Returns [`Exit::NO`] if there is a warning or a danger.
pub(crate) async fn doctor(store: &Store, json: bool) -> Result<Exit, Fault> {
    let locks = store.connect().await?;
    let findings = locks.doctor().await?;
    if json {
        findings.iter().for_each(|finding| out::line(serde_json::json!(finding)));
    } else {
        out::print(text(locks.store(), &findings));
    }
    let is_bad = findings.iter().any(|finding| finding.severity > Severity::Note);
    Ok(if is_bad { Exit::NO } else { Exit::OK })
}

fn text(store: &str, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return format!("{store}: nothing was found\n");
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let counts: Vec<String> = [Severity::Danger, Severity::Warning, Severity::Note]
        .into_iter()
        .map(|severity| (count(severity), severity))
        .filter(|(count, _)| *count > 0)
        .map(|(count, severity)| format!("{count} {severity}{}", if count == 1 { "" } else { "s" }))
        .collect();
    let mut text = format!("{store}: {}\n", counts.join(", "));
    for Finding { severity, rule, about, found, advice, .. } in findings {
        let about = if about.is_empty() { String::new() } else { format!(" `{}`", plain(about)) };
        let lines = [
            format!("\n{severity:<8} {rule}{about}\n"),
            format!("         {}\n", plain(found)),
            format!("         do: {}\n", plain(advice)),
        ];
        text.extend(lines);
    }
    text
}

/// Returns a text in which control characters for the terminal are escaped.
fn plain(text: &str) -> String {
    let escaped = |char: char| -> String {
        if char.is_control() { char.escape_debug().collect() } else { char.into() }
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted_and_told() {
        assert_eq!(text("redis", &[]), "redis: nothing was found\n");
        let findings = [
            Finding::new(Severity::Danger, "a.b", "it is so", "change it").about("s:1"),
            Finding::new(Severity::Note, "c.d", "it is\nso", "know it"),
            Finding::new(Severity::Note, "c.d", "it is so", "know it"),
        ];
        let expected = "redis: 1 danger, 2 notes\n\ndanger   a.b `s:1`\n         it is so\n         do: change it\n\n\
                        note     c.d\n         it is\\nso\n         do: know it\n\n\
                        note     c.d\n         it is so\n         do: know it\n";
        assert_eq!(text("redis", &findings), expected);
    }
}
