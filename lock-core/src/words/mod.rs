//! The words and units in which options are written as text: in the attribute, in a configuration file and in the
//! environment; and what else both crates need to read them.
//!
//! The folder belongs to lock-core. A crate of macros cannot use the library that depends on it, so `src/words` of
//! lock-macros is a link to this folder. It therefore uses nothing but itself, `humantime` and `strsim`.
//!
//! | file | holds |
//! | --- | --- |
//! | `option` | the names of the options, and the form in which each is written |
//! | `kind`, `strategy`, `choice` | the values that are words |
//! | `duration` | the values that are durations |
//! | `synonyms` | what other libraries call an option or a value |
//! | `suggest` | the nearest word |
//! | `clash` | a key that two templates can both give |

// Modules, not re-exports: each crate uses a part of what is here, and would warn of a re-export that it does not use.
pub(crate) mod choice;
pub(crate) mod clash;
pub(crate) mod duration;
pub(crate) mod kind;
pub(crate) mod option;
pub(crate) mod strategy;
pub(crate) mod suggest;
pub(crate) mod synonyms;
