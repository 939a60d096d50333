//! Attribute paths into a body of any shape: `customer.cards[2].data`; and the error of an attribute.

use std::borrow::Cow;

use scrip_expression::{ExpressionError, PathStep};

/// A path under construction. Errors contain the path, so it must not contain a name that could be
/// a value.
#[derive(Debug, Default)]
pub struct AttributePath(String);

/// The length of a path before a step was added.
#[derive(Debug, Clone, Copy)]
pub struct PathMark(usize);

const NAME_BYTES_MAX: usize = 64;
/// More digits could be part of a secret number.
const NAME_DIGITS_MAX: usize = 3;

impl AttributePath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Adds a name. A name that does not look like an attribute name is replaced by `*`.
    pub fn enter(&mut self, name: &str) -> PathMark {
        let mark = PathMark(self.0.len());
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(if is_attribute_name(name) { name } else { "*" });
        mark
    }

    pub fn enter_index(&mut self, index: usize) -> PathMark {
        let mark = PathMark(self.0.len());
        self.0.push_str(&format!("[{index}]"));
        mark
    }

    /// Removes the steps after the mark.
    pub fn leave(&mut self, mark: PathMark) {
        self.0.truncate(mark.0);
    }

    pub fn from_steps(steps: &[PathStep]) -> Self {
        let mut path = Self::default();
        for step in steps {
            match step {
                PathStep::Name(name) => path.enter(name),
                PathStep::Index(index) => path.enter_index(*index),
            };
        }
        path
    }
}

fn is_attribute_name(name: &str) -> bool {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_name_byte = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && digits <= NAME_DIGITS_MAX
        && name.bytes().all(is_name_byte)
        && !name.starts_with(|it: char| it.is_ascii_digit())
}

/// The path of an attribute, such as `containers[0]`, and the violated rule. It never contains a
/// value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub field: Cow<'static, str>,
    pub problem: Cow<'static, str>,
}

impl FieldError {
    pub fn new(field: impl Into<Cow<'static, str>>, problem: &'static str) -> Self {
        Self { field: field.into(), problem: Cow::Borrowed(problem) }
    }

    /// The same error in a larger body, at this path.
    #[must_use]
    pub fn prefix_path(self, path: &str) -> Self {
        let field = match (path, self.field.as_ref()) {
            ("", _) => self.field,
            (_, "") => path.to_owned().into(),
            (_, field) => format!("{path}.{field}").into(),
        };
        Self { field, ..self }
    }

    pub fn from_expression_error(
        field: impl Into<Cow<'static, str>>,
        error: ExpressionError,
    ) -> Self {
        Self { field: field.into(), problem: Cow::Owned(error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_path_enters_and_leaves_names_and_indexes() {
        let mut path = AttributePath::default();
        let start_mark = path.enter("customer");
        path.enter("cards");
        let cards_mark = path.enter_index(12);
        path.enter("data-2");
        assert_eq!(path.as_str(), "customer.cards[12].data-2");
        path.leave(cards_mark);
        assert_eq!(path.as_str(), "customer.cards");
        path.leave(start_mark);
        assert_eq!(path.as_str(), "");
        path.enter_index(0);
        path.enter("a");
        assert_eq!(path.as_str(), "[0].a");
    }

    #[test]
    fn attribute_path_replaces_names_that_may_be_values() {
        for name in ["", "4242", "card4242", "7", "a b", "john@x.org", "a.b", "é", "[0]"] {
            let mut path = AttributePath::default();
            path.enter(name);
            path.enter("data");
            assert_eq!(path.as_str(), "*.data", "path of {name:?}");
        }
        assert!(!is_attribute_name(&"x".repeat(65)));
    }
}
