//! The text of an error for the operator.

use scrip_core::Error;

/// Converts an error to a message for the operator, with its cause. The cause is for the operator
/// only.
pub fn explain(error: impl Into<Error>) -> anyhow::Error {
    anyhow::Error::msg(error.into().cause_text())
}
