//! The size of the tests that compute.

/// The variable that makes these tests larger.
const VARIABLE: &str = "LOCK_TEST_SCALE";

/// Returns the number in `LOCK_TEST_SCALE`. Tests that compute multiply their size by it. The default is 1.
///
/// # Panics
/// When the variable is not a positive number.
#[must_use]
pub fn scale() -> u64 {
    let Ok(text) = std::env::var(VARIABLE) else { return 1 };
    text.parse()
        .ok()
        .filter(|scale| *scale > 0)
        .unwrap_or_else(|| panic!("{VARIABLE} is a positive number, and not {text:?}"))
}
