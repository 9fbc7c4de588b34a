//! Profiles from a TOML file and from the environment.
//!
//! | file | holds |
//! | --- | --- |
//! | `source` | [`Source`]: where they are read from, and the one state that comes of it |
//! | `file` | from the text of a file to what is written in it, with its lines |
//! | `environment` | the same from variables |
//! | `written` | what is written: words and values, each with its origin |
//! | `read` | from the words and values to options, by the parsers of [`words`](crate::words) |
//! | `mistake` | what is wrong, and where |

mod environment;
mod file;
mod mistake;
mod read;
mod source;
#[cfg(test)]
mod tests;
mod written;

pub(crate) use source::Source;
