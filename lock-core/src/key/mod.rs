//! Keys: what is locked, and the templates they are rendered from.
//!
//! A [`Key`] is the rendered name, `order:42`. A [`KeyTemplate`] is the text it is rendered from, `order:<id>`.
//! [`KeyBuilder`] renders without parsing; the attribute macro writes calls of it. Both give the same key for the
//! same template and values.
//!
//! # Different values, different keys
//!
//! Whoever chooses a value must not reach another key with it: values often come from a URL.
//!
//! - Every byte of a value outside `[A-Za-z0-9._~-]` is written as `%` and two upper-case hexadecimal digits. The id
//!   `a:b` in `order:<id>` gives `order:a%3Ab`, never the `order:a:b` of `order:<id>:<part>`.
//! - Two placeholders need a character between them that values cannot contain: `<tenant>:<id>`. Where only letters,
//!   digits and some of `-`, `.`, `_` and `~` stand between them, as in `<tenant>-<id>`, the last such mark is encoded in
//!   the second value as well: `acme-42`, but `acme-4%2D2`. Where not even a mark stands there, the template is refused.
//! - An empty value renders as nothing, and that stays unambiguous for the same reason. A key that is empty as a
//!   whole is [`InvalidKey`](crate::LockErrorKind::InvalidKey).
//! - A text longer than [`Key::MAX_LEN`] bytes becomes a readable prefix, `#` and 128 bits of its SHA-256, the same
//!   in every version of this crate.
//!
//! # Different templates, different keys
//!
//! No value contains a character such as `:`, `/` or `#`. So the keys of two templates differ whatever the values are, as
//! long as the fixed texts of the templates differ in such a character: `order:<id>`, `order:<id>:items` and
//! `stock/<id>`. Where they differ in letters, digits, `.`, `_`, `~` and `-` alone, a value may spell the difference:
//!
//! | template, value | other template | key of both |
//! | --- | --- | --- |
//! | `job:<name>`, `nightly` | `job:nightly` | `job:nightly` |
//! | `order:<id>`, `7.items` | `order:<id>.items`, `7` | `order:7.items` |
//!
//! Then one of the two waits for the other without need, and whoever chooses the value can make it wait. Take care with
//! a fixed name beside a placeholder: write `job:name:<name>` and `job:nightly`. [`KeyTemplate::clash`] tells whether
//! two templates can meet. The attribute checks the templates of one `keys = [..]` when it is compiled; nobody sees the
//! templates of a whole program, so a test of yours can hold them against each other.
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
mod clash;
mod digest;
mod encode;
mod name;
mod namespace;
mod template;
#[cfg(test)]
mod tests;

pub use builder::KeyBuilder;
#[doc(hidden)]
pub use clash::Values;
pub use name::{IntoKey, Key};
pub use namespace::validate_namespace;
pub use template::KeyTemplate;
