//! How large the tests are that compute.

/// The variable that makes them larger.
const VARIABLE: &str = "LOCK_TEST_SCALE";

/// Returns the number in `LOCK_TEST_SCALE`, by which tests that compute multiply their size; 1 by default.
///
/// # Panics
/// When the variable is no positive number.
#[must_use]
pub fn scale() -> u64 {
    let Ok(text) = std::env::var(VARIABLE) else { return 1 };
    text.parse()
        .ok()
        .filter(|scale| *scale > 0)
        .unwrap_or_else(|| panic!("{VARIABLE} is a positive number, and not {text:?}"))
}
