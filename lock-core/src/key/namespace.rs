//! Checks the namespace that a manager puts before its keys.

use crate::error::{LockError, LockErrorKind, Result};

/// The maximum length of a namespace in bytes.
pub(super) const MAX_NAMESPACE_LEN: usize = 64;

/// Checks a namespace, which has at most 64 bytes of `[A-Za-z0-9._-]`. An empty text stands for no namespace.
///
/// # Errors
///
/// [`LockErrorKind::InvalidRequest`]. The error names the wrong character or the length.
///
/// # Examples
///
/// ```
/// use lock_core::key::validate_namespace;
///
/// assert!(validate_namespace("shop-eu.v2").is_ok());
/// assert!(validate_namespace("shop:eu").is_err());
/// ```
pub fn validate_namespace(namespace: &str) -> Result<()> {
    let wrong = |detail: String| Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    let allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    if let Some((at, char)) = namespace.char_indices().find(|(_, char)| !allowed(*char)) {
        return wrong(format!(
            "the namespace has {char:?} at byte {at}: expected letters, digits, `.`, `_` and `-` of ASCII only"
        ));
    }
    if namespace.len() > MAX_NAMESPACE_LEN {
        return wrong(format!(
            "the namespace has {} bytes: expected at most {MAX_NAMESPACE_LEN}",
            namespace.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_documented_alphabet_and_length() {
        for namespace in ["", "shop", "A.b_c-9", &"x".repeat(64)] {
            assert!(validate_namespace(namespace).is_ok(), "{namespace}");
        }
    }

    #[test]
    fn names_what_is_wrong() {
        for (namespace, says) in [
            ("shop:eu", "':' at byte 4"),
            ("läden", "'ä' at byte 1"),
            ("a b", "' ' at byte 1"),
            (&*"x".repeat(65), "65 bytes: expected at most 64"),
        ] {
            let error = validate_namespace(namespace).unwrap_err();
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
