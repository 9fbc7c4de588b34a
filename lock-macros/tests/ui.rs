//! What the compiler says: each message of the attribute under the token it is about, and silence where all is well.
//!
//! The words of the compiler around ours change with its version; the expected files are those of Rust 1.95.
//! `TRYBUILD=overwrite cargo test -p lock-macros --test ui` writes them anew, to be read before they are kept.

#[test]
fn messages() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
