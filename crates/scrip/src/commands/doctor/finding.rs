//! The result of one check.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckVerdict {
    Passed,
    Warning,
    Failed,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: CheckVerdict,
    /// The result, and how to fix it.
    pub(super) message: String,
}

pub(super) fn passed(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, verdict: CheckVerdict::Passed, message: message.into() }
}

pub(super) fn warning(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, verdict: CheckVerdict::Warning, message: message.into() }
}

pub(super) fn failed(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, verdict: CheckVerdict::Failed, message: message.into() }
}
