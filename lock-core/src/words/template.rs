//! Splits a template such as `order:<id>` into its text and its placeholders.

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text, in which `<<` has become `<`.
    Literal(Box<str>),
    /// The name between `<` and `>`.
    Placeholder(Box<str>),
}

/// The mistake in a template. Each position is the index of a byte in the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken<'a> {
    /// The template is empty.
    Empty,
    /// The `<` at this byte has no `>`.
    Open(usize),
    /// Another `<` occurs between a `<` and its `>`.
    Inside { open: usize, other: usize },
    /// The placeholder at this byte has no name.
    Nameless(usize),
    /// No text separates the value of this placeholder from the value before it.
    Adjacent { open: usize, name: &'a str },
}

/// Splits a template. `a:<b>` becomes the literal `a:` and the placeholder `b`.
pub(crate) fn split(template: &str) -> Result<Vec<Piece>, Broken<'_>> {
    if template.is_empty() {
        return Err(Broken::Empty);
    }
    let (mut pieces, mut literal, mut at) = (Vec::new(), String::new(), 0);
    while let Some(found) = template[at..].find('<') {
        let open = at + found;
        literal.push_str(&template[at..open]);
        if template[open + 1..].starts_with('<') {
            literal.push('<');
            at = open + 2;
            continue;
        }
        let name = name(template, open)?;
        if !pieces.is_empty() && !separates(&literal) {
            return Err(Broken::Adjacent { open, name });
        }
        end(&mut literal, &mut pieces);
        pieces.push(Piece::Placeholder(name.into()));
        at = open + name.len() + 2;
    }
    literal.push_str(&template[at..]);
    end(&mut literal, &mut pieces);
    Ok(pieces)
}

/// Returns the name of the placeholder whose `<` is at byte `open`.
fn name(template: &str, open: usize) -> Result<&str, Broken<'_>> {
    let rest = &template[open + 1..];
    let length = rest.find(['<', '>']).ok_or(Broken::Open(open))?;
    if rest[length..].starts_with('<') {
        return Err(Broken::Inside { open, other: open + 1 + length });
    }
    if length == 0 { Err(Broken::Nameless(open)) } else { Ok(&rest[..length]) }
}

fn end(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal).into()));
    }
}

/// Returns whether this text separates two values unambiguously. Without such a text, `<a><b>` gives the same key for
/// "ab", "c" and for "a", "bc". Letters, digits and `%` do not separate, because they occur in encoded values.
pub(crate) fn separates(literal: &str) -> bool {
    literal.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Piece {
        Piece::Literal(text.into())
    }

    fn placeholder(text: &str) -> Piece {
        Piece::Placeholder(text.into())
    }

    #[test]
    fn a_template_is_split_into_text_and_placeholders() {
        for (template, pieces) in [
            ("order", vec![literal("order")]),
            ("order:<id>", vec![literal("order:"), placeholder("id")]),
            ("<a>-<b.c>", vec![placeholder("a"), literal("-"), placeholder("b.c")]),
            ("a<<b>c", vec![literal("a<b>c")]),
            ("<<<a>>", vec![literal("<"), placeholder("a"), literal(">")]),
            ("größe:<é>!", vec![literal("größe:"), placeholder("é"), literal("!")]),
        ] {
            assert_eq!(split(template), Ok(pieces), "{template}");
        }
    }

    #[test]
    fn a_broken_template_tells_where() {
        for (template, broken) in [
            ("", Broken::Empty),
            ("order:<id", Broken::Open(6)),
            ("é<<:<id", Broken::Open(5)),
            ("<", Broken::Open(0)),
            ("<a<b>", Broken::Inside { open: 0, other: 2 }),
            ("a:<>", Broken::Nameless(2)),
            ("<a><b>", Broken::Adjacent { open: 3, name: "b" }),
            ("x:<a>20%<b>", Broken::Adjacent { open: 8, name: "b" }),
        ] {
            assert_eq!(split(template), Err(broken), "{template}");
        }
    }
}
