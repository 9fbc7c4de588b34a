//! Profiles from a TOML file and from the environment.
//!
//! | file | holds |
//! | --- | --- |
//! | `source` | [`Source`]: the file and the environment, and the one state read from them |
//! | `file` | the content of a file, with its lines |
//! | `environment` | the same from variables |
//! | `written` | the content: words and values, each with its place |
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
