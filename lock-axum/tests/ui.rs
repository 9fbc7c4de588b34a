//! What the compiler says of a layer that cannot be mounted or of a key that is none.
//!
//! The words of the compiler around ours change with its version; the expected files are those of Rust 1.95.
//! `TRYBUILD=overwrite cargo test -p lock-axum --test ui` writes them anew, to be read before they are kept.

#[test]
fn messages() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
