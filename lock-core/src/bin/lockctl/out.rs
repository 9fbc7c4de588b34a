//! Writes to the standard output.

use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;

use crate::exit::Exit;

/// Returns the columns and the rows of a terminal. If the terminal has no size, as under `script`, returns 80 and 24.
pub(crate) fn size(terminal: impl AsFd) -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(terminal).map_or((0, 0), |size| (size.ws_col, size.ws_row));
    let or = |value: u16, other| if value == 0 { other } else { usize::from(value) };
    (or(size.0, 80), or(size.1, 24))
}

/// Prints a line. If the reader of the output has ended, as `head` does, exits with [`Exit::UNREAD`].
pub(crate) fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints a text, and flushes it.
pub(crate) fn print(text: impl Display) {
    if !is_read(text) {
        std::process::exit(i32::from(Exit::UNREAD.0));
    }
}

/// Prints a text and flushes it. Returns `false` if the reader of the output has ended.
pub(crate) fn is_read(text: impl Display) -> bool {
    let mut out = std::io::stdout();
    write!(out, "{text}").and_then(|()| out.flush()).is_ok()
}
