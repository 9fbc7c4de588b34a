//! Defines keys, which name what is locked, and the templates from which keys are rendered.
//!
//! A [`Key`] is the rendered name, such as `order:42`. A [`KeyTemplate`] is the text from which a key is rendered, such
//! as `order:<id>`. A [`KeyBuilder`] renders a key without parsing a template. The attribute macro generates calls of
//! the builder. For the same template and values, a template and a builder produce the same key.
//!
//! # Different values, different keys
//!
//! Values often come from a URL. A client must not be able to reach another key by choosing a special value.
//!
//! - Every byte of a value outside `[A-Za-z0-9._~-]` is written as `%` and two upper-case hexadecimal digits. The id
//!   `a:b` in `order:<id>` gives `order:a%3Ab`, never the `order:a:b` of `order:<id>:<part>`.
//! - Two placeholders need a character between them that values cannot contain: `<tenant>:<id>`. If the text between
//!   them has only letters, digits and some of the marks `-`, `.`, `_` and `~`, as in `<tenant>-<id>`, then the last
//!   such mark is also encoded in the second value: the id `42` gives `acme-42`, and `4-2` gives `acme-4%2D2`. Without
//!   such a mark, the template is refused.
//! - An empty value adds no text. The key is still unambiguous, because of the text between the values. If the whole
//!   key is empty, the result is [`InvalidKey`](crate::LockErrorKind::InvalidKey).
//! - A text longer than [`Key::MAX_LEN`] bytes is replaced by a readable prefix, `#` and 128 bits of its SHA-256 hash.
//!   The result is the same in every version of this crate.
//!
//! # Different templates, different keys
//!
//! No encoded value contains a character such as `:`, `/` or `#`. So if the fixed texts of two templates differ in such
//! a character, their keys always differ: `order:<id>`, `order:<id>:items` and `stock/<id>`. If the fixed texts differ
//! only in letters, digits, `.`, `_`, `~` and `-`, a value may imitate the difference:
//!
//! | template, value | other template | key of both |
//! | --- | --- | --- |
//! | `job:<name>`, `nightly` | `job:nightly` | `job:nightly` |
//! | `order:<id>`, `7.items` | `order:<id>.items`, `7` | `order:7.items` |
//!
//! In such a case, two unrelated locks block each other, and a client that chooses the value can cause this. Avoid a
//! fixed name at the position where another template has a placeholder: write `job:name:<name>` and `job:nightly`.
//! [`KeyTemplate::clash`] finds a key that two templates have in common. The attribute checks the templates in one
//! `keys = [..]` at compile time. The attribute cannot compare templates of different functions, so compare them in a
//! test.
//!
//! # Examples
//!
//! ```
//! use lock_core::key::{Key, KeyBuilder, KeyTemplate};
//!
//! let template: KeyTemplate = "order:<id>".parse()?;
//! let key = template.render(|_name| Ok("a:b"))?;
//! assert_eq!(key.as_str(), "order:a%3Ab");
//! assert_eq!(key, KeyBuilder::new().literal("order:").value(&"a:b").finish()?);
//! assert_ne!(key, Key::new("order:a:b")?);
//! # Ok::<(), lock_core::LockError>(())
//! ```

mod blame;
mod builder;
mod digest;
mod encode;
mod hash;
mod name;
mod namespace;
mod template;
#[cfg(test)]
mod tests;

pub use builder::KeyBuilder;
pub(crate) use name::KeyMap;
pub use name::{IntoKey, Key};
pub use namespace::validate_namespace;
pub use template::KeyTemplate;

pub use crate::words::clash::Values;
