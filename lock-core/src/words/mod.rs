//! Defines the words and units of options that are written as text: in the attribute, in a configuration file and in
//! the environment. Also contains other code that both crates need to read them.
//!
//! The folder belongs to lock-core. A crate of macros cannot use the library that depends on it, so `src/words` of
//! lock-macros is a link to this folder. Therefore this folder uses only its own modules, `humantime` and `strsim`.
//!
//! | file | holds |
//! | --- | --- |
//! | `option` | the names of the options, and the form of each |
//! | `kind`, `strategy`, `choice` | the values that are words |
//! | `duration` | the values that are durations |
//! | `synonyms` | the names that other libraries use for an option or a value |
//! | `suggest` | the word that is most similar to a wrong one |
//! | `template` | the text and the placeholders of a template |
//! | `clash` | a key that two templates can both render |
//! | `backoff` | the default pauses of a strategy that tries again |

// These are modules without re-exports. Each crate uses only a part of them, and would warn of an unused re-export.
pub(crate) mod backoff;
pub(crate) mod choice;
pub(crate) mod clash;
pub(crate) mod duration;
pub(crate) mod kind;
pub(crate) mod option;
pub(crate) mod strategy;
pub(crate) mod suggest;
pub(crate) mod synonyms;
pub(crate) mod template;
