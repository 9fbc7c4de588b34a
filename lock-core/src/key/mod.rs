//! Keys.
/// key
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(std::sync::Arc<str>);
impl Key {
    /// text
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
