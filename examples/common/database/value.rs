//! The values of statements and of their rows.

/// A value of one of the two types that the tables use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A row of a query.
#[derive(Clone, Debug)]
pub(crate) struct Row(pub(super) Vec<Value>);

impl Row {
    /// Returns the number in a column, counted from 0, or 0 if the column has no number.
    pub(crate) fn number(&self, column: usize) -> i64 {
        match self.0.get(column) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    }

    /// Returns the text in a column, counted from 0, or the empty text if the column has no text.
    pub(crate) fn text(&self, column: usize) -> &str {
        match self.0.get(column) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }
}
