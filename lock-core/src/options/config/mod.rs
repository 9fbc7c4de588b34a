//! Reads profiles from a TOML file and from the environment.
//!
//! | file | holds |
//! | --- | --- |
//! | `source` | [`Source`]: the file and the environment, merged into one state |
//! | `file` | the content of a file, with its lines |
//! | `environment` | the content of environment variables |
//! | `written` | the content: words and values, each with its place |
//! | `read` | turns words and values into options, with the parsers of [`words`](crate::words) |
//! | `mistake` | the mistakes, and their places |

mod environment;
mod file;
mod mistake;
mod read;
mod source;
#[cfg(test)]
mod tests;
mod written;

pub(crate) use source::Source;
