//! The messages of the compiler: each error of the attribute is at the token that causes it, and correct code has none.
//!
//! The compiler's own words change with its version; the expected files are those of Rust 1.95.
//! `TRYBUILD=overwrite cargo test -p lock-macros --test ui` regenerates them. Read the difference before you commit it.

/// The files in `clean` are correct, except for a name at their end. The message about the name is the only one.
///
/// They could be cases that pass. But one of those makes trybuild build the dependencies, and each case on its own, instead
/// of checking all of them at once.
#[test]
fn messages() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.compile_fail("tests/ui/clean/*.rs");
}
