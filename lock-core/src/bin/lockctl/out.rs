//! The standard output.

use std::fmt::Display;
use std::io::Write;

/// Prints a line. If the reader has gone, as `head` does, the program ends as one that the signal PIPE has ended.
pub(crate) fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints a text, and flushes it.
pub(crate) fn print(text: impl Display) {
    let mut out = std::io::stdout();
    if write!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(128 + 13);
    }
}
