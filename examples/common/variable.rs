//! The environment variables that name the place of the data.

/// Returns the value of a variable, or `None` if it is not set. An empty value is an error, because it names no place.
/// A deployment template without a value produces one.
pub(crate) fn read(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) if value.trim().is_empty() => {
            Err(format!("the variable {name} is set and empty: give it a value, or remove it"))
        }
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("the variable {name} is not text")),
    }
}
