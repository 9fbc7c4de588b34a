//! The compiler messages for a layer that cannot be mounted, and for an invalid key.
//!
//! The expected files contain messages of Rust 1.95, because the compiler's own words change with its version.
//! `TRYBUILD=overwrite cargo test -p lock-axum --test ui` regenerates them. Read the difference before you commit it.
#![cfg(feature = "axum")]

#[test]
fn messages() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
