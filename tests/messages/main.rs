//! The compiler messages: of a wrong attribute, and of a layer that cannot be mounted. Each error of the attribute points
//! at the token that causes it, and correct code has no error.
//!
//! The expected files contain messages of Rust 1.95, because the compiler's own words change with its version.
//! `TRYBUILD=overwrite cargo test -p lock-messages` regenerates them. Read the difference before you commit it.

/// The files in `clean` are correct, except for an unknown name at their end. The message about this name is the only
/// one.
///
/// The files could also be cases that pass. But a case that passes makes trybuild build the dependencies and check each
/// case separately, instead of all cases at once.
#[test]
fn messages() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
    cases.compile_fail("clean/*.rs");
    cases.compile_fail("layer/*.rs");
}
