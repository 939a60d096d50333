//! The reason of a failure, for a log.

use std::collections::BTreeMap;

use axum::response::Response;

/// Attributes that a reason names.
const FIELDS_MAX: usize = 3;
/// A longer attribute path is not printed: a client may have chosen its parts.
const FIELD_CHARS_MAX: usize = 60;
/// A path with a longer number is not printed: the number may be a value.
const DIGITS_MAX: usize = 4;

/// Attributes and rules, or the failure of a 3DS service, as in the problem of the response. It
/// never contains values of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemReason(String);

impl ProblemReason {
    pub(super) fn from_detail(detail: String) -> Self {
        Self(detail)
    }

    /// The rules that each attribute breaks.
    pub(super) fn from_attributes(errors: &BTreeMap<&str, Vec<&str>>) -> Self {
        let rules = errors.iter().take(FIELDS_MAX).map(|(field, rules)| {
            let field = if is_printable(field) { field } else { "an attribute" };
            format!("{field}: {}", rules.join(", "))
        });
        Self(rules.collect::<Vec<_>>().join("; "))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// Adds the reason to a response. It is not sent.
    pub(crate) fn add_to(self, response: &mut Response) {
        response.extensions_mut().insert(self);
    }
}

fn is_printable(field: &str) -> bool {
    let is_path = |b: u8| b.is_ascii_alphanumeric() || b"_.[]-".contains(&b);
    let numbers = field.split(|it: char| !it.is_ascii_digit());
    field.len() <= FIELD_CHARS_MAX
        && field.bytes().all(is_path)
        && numbers.map(str::len).all(|it| it <= DIGITS_MAX)
}

#[cfg(test)]
mod tests {
    use scrip_core::{
        Error, FieldError,
        types::{FailureReason, ServiceFailure},
    };
    use scrip_threeds::{fault::Component, message::FailureKind};

    use crate::problem::Problem;

    fn reason_of(field: &str) -> String {
        let problem =
            Problem::Failed(Error::Invalid(vec![FieldError::new(field.to_owned(), "is required")]));
        problem.reason().0
    }

    #[test]
    fn reason_names_attributes_but_no_text_that_may_be_a_value() {
        assert_eq!(reason_of("data.number"), "data.number: is required");
        assert_eq!(reason_of("rules[3].container"), "rules[3].container: is required");
        for field in ["metadata.4242424242424242", "a b", "\u{1b}[31m", &"a".repeat(61)] {
            assert_eq!(reason_of(field), "an attribute: is required");
        }
        assert_eq!(Problem::NoRoute.reason().text(), "Not found.");
    }

    #[test]
    fn reason_of_a_failed_3ds_service_is_its_message_and_detail() {
        let reason = |reason, detail: &str| {
            let failure = ServiceFailure {
                reason,
                session: None,
                source: Component::DirectoryServer,
                kind: FailureKind::NotFound,
                message: "The card is not supported",
                detail: detail.to_owned(),
            };
            Problem::Failed(Error::Service(Box::new(failure))).reason().0
        };
        assert_eq!(
            reason(FailureReason::CardNotSupported, "The number is in no card range"),
            "The card is not supported: The number is in no card range"
        );
        assert_eq!(reason(FailureReason::ErrorResponse, ""), "The card is not supported");
    }
}
