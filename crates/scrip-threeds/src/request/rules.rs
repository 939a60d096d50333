//! The rules for a request as one table, in the order of their numbers.
//!
//! Rules 1 to 3 concern the creation of a session and need the vault. Rule 6 is a default
//! ([`AuthenticateContext::requests_decoupled`]). Rule 36 lists attributes that are *not* required.

mod device;
mod optional;
mod required;
mod rule;

pub use self::rule::RequestRule;

use std::borrow::Cow;

use crate::request::{AuthenticateContext, Violation};

/// All rules, in order.
pub(crate) fn rules() -> impl Iterator<Item = &'static RequestRule> {
    let optional = optional::FORMAT_RULES.iter().chain(optional::OBJECT_RULES);
    required::RULES.iter().chain(optional).chain(device::RULES)
}

/// All violations. Each attribute is reported once, with the first rule that it violates.
pub fn violations(context: &AuthenticateContext<'_>) -> Vec<Violation> {
    let mut violations: Vec<Violation> = Vec::new();
    for rule in rules().filter(|it| it.is_broken_in(context)) {
        if !violations.iter().any(|it| it.path == rule.path) {
            violations.push(Violation { path: Cow::Borrowed(rule.path), message: rule.message });
        }
    }
    violations
}
