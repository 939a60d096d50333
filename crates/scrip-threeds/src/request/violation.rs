//! A violation of a rule for requests.

use std::borrow::Cow;

/// A violation: the attribute and the rule. Never contains a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub path: Cow<'static, str>,
    pub message: &'static str,
}
