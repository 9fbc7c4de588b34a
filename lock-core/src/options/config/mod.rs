//! Profiles from a TOML file and from the environment.
//!
//! | file | holds |
//! | --- | --- |
//! | `source` | [`Source`]: the file and the environment, and the one state read from them |
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
