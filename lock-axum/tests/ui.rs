//! The messages of the compiler about a layer that cannot be mounted, and about an invalid key.
//!
//! The compiler's own words change with its version; the expected files are those of Rust 1.95. `TRYBUILD=overwrite
//! cargo test -p lock-axum --test ui` regenerates them. Read the difference before you commit it.
#![cfg(feature = "axum")]

#[test]
fn messages() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
