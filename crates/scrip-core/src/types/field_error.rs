//! An invalid attribute of a request.

use std::borrow::Cow;

use scrip_expression::ExpressionError;

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
