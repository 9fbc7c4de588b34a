//! Parses options that are written as text in the attribute, in a configuration file or in the environment. Also
//! contains other parsing code that lock-core and lock-macros share.
//!
//! The folder belongs to lock-core. The macro crate cannot depend on lock-core, because lock-core depends on the macro
//! crate. So `src/words` of lock-macros is a link to this folder, and this folder uses only its own modules,
//! `humantime` and `strsim`.
//!
//! | file | holds |
//! | --- | --- |
//! | `option` | the names of the options, with the syntax of each |
//! | `kind`, `strategy`, `choice` | the values that are words |
//! | `duration` | the values that are durations |
//! | `synonyms` | the names that other libraries use for an option or a value |
//! | `suggest` | the word that is most similar to a wrong one |
//! | `template` | the text and the placeholders of a template |
//! | `clash` | a key that two templates can both render |
//! | `backoff` | the default pauses of a strategy that retries |

// These modules have no re-exports. Each crate uses only some of the items, so the compiler would warn about unused
// re-exports.
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
