//! Converts UUIDs to the spelling that RFC 9562 prefers.

/// The number of hexadecimal digits of a UUID.
const DIGITS: usize = 32;

/// The positions of the hyphens in the canonical spelling.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Returns `value` in lower case and with hyphens, or `None` if it is not a UUID.
///
/// Accepts every spelling that common parsers accept: in upper case, without hyphens, in braces, and after `urn:uuid:`.
pub(super) fn canonical(value: &str) -> Option<String> {
    let value = without_urn(value);
    let value = value.strip_prefix('{').map_or(Some(value), |rest| rest.strip_suffix('}'))?;
    let has_hyphens = value.len() == DIGITS + HYPHENS.len();
    if !has_hyphens && value.len() != DIGITS {
        return None;
    }
    let mut canonical = String::with_capacity(DIGITS + HYPHENS.len());
    for (at, char) in value.char_indices() {
        if has_hyphens && HYPHENS.contains(&at) {
            (char == '-').then_some(())?;
            continue;
        }
        char.is_ascii_hexdigit().then_some(())?;
        if HYPHENS.contains(&canonical.len()) {
            canonical.push('-');
        }
        canonical.push(char.to_ascii_lowercase());
    }
    Some(canonical)
}

/// Returns whether `value` is certainly a UUID, but not in its canonical spelling. Thirty-two digits without hyphens
/// may be something else.
pub(super) fn is_noncanonical(value: &str) -> bool {
    value.len() != DIGITS && canonical(value).is_some_and(|canonical| canonical != value)
}

fn without_urn(value: &str) -> &str {
    const URN: &str = "urn:uuid:";
    match value.get(..URN.len()) {
        Some(start) if start.eq_ignore_ascii_case(URN) => &value[URN.len()..],
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    #[test]
    fn every_spelling_is_one() {
        for spelling in [
            ID,
            "67E55044-10B1-426F-9247-BB680E5FE0C8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "67E5504410B1426F9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "{67e5504410b1426f9247bb680e5fe0c8}",
            "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
            "URN:UUID:67e5504410b1426f9247bb680e5fe0c8",
        ] {
            assert_eq!(canonical(spelling).as_deref(), Some(ID), "{spelling}");
        }
    }

    #[test]
    fn what_is_no_uuid_is_none() {
        for text in [
            "",
            "-",
            "67e55044",
            "67e55044-10b1-426f-9247-bb680e5fe0c",
            "67e55044-10b1-426f-9247-bb680e5fe0c80",
            "67e55044-10b1-426f-9247-bb680e5fe0cg",
            "67e5504410b1-426f-9247-bb680e5fe0c8--",
            "67e5504-410b1-426f-9247-bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8",
            "67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "urn:uuid:",
            "uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
            " 67e5504410b1426f9247bb680e5fe0c8",
            // These texts have as many bytes as a UUID, but contain letters that are not ASCII.
            "67e55044-10b1-426f-9247-bb680e5fe0\u{e9}",
            "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
