//! Why a transform cannot be applied.

use hyper::StatusCode;
use scrip_core::{FieldError, types::AttributePath};
use scrip_expression::LeafError;

use super::match_finder::WorkExceeded;
use crate::{
    app::failed_call_log::CallFailureCause,
    metrics::CallFailureReason,
    proxy::error::{CallDelivery, ProxyError},
};

const CODE_RULE: &str = "is code, which this server cannot run";
const WORK_RULE: &str =
    "cannot be applied: the masks of the proxy need too much work for this body";

/// The list of a transform, and when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransformKind {
    Request,
    /// Before the request is sent.
    Response,
    /// After the destination answered with this status.
    Answer(StatusCode),
}

/// Why a transform cannot be applied.
#[derive(Debug)]
pub(in crate::proxy) enum TransformError {
    /// The transform is code.
    Code,
    Rule(&'static str),
    Expression(LeafError),
    TooLarge,
    /// A mask needs more work than allowed.
    Work,
    Failed(Box<ProxyError>),
}

impl From<WorkExceeded> for TransformError {
    fn from(WorkExceeded: WorkExceeded) -> Self {
        Self::Work
    }
}

impl TransformError {
    pub(in crate::proxy) fn explain(self, index: usize, kind: TransformKind) -> ProxyError {
        let list = match kind {
            TransformKind::Request => "request_transforms",
            TransformKind::Response | TransformKind::Answer(_) => "response_transforms",
        };
        let path = format!("{list}[{index}]");
        let cause = self.logged_cause(&path);
        let error = match self {
            Self::Code => ProxyError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                CallDelivery::NotSent,
                "the proxy has a code transform, which this server cannot run",
            ),
            Self::Rule(rule) => ProxyError::invalid(path, rule),
            Self::Work => ProxyError::invalid(path, WORK_RULE),
            Self::Expression(error) => {
                let steps = AttributePath::from_steps(&error.path);
                let field =
                    FieldError::from_expression_error(steps.as_str().to_owned(), error.cause);
                field.prefix_path(&path).into()
            }
            Self::TooLarge => ProxyError::too_large(),
            Self::Failed(error) => *error,
        };
        let error = match cause {
            Some(cause) => error.with_logged_cause(cause),
            None => error,
        };
        match kind {
            TransformKind::Request | TransformKind::Response => error,
            TransformKind::Answer(status) => error.after_answer(status),
        }
    }

    /// The cause without the path of an attribute and the text of an expression, which can contain
    /// data. A failure with another kind of error is no failure of the transform.
    fn logged_cause(&self, path: &str) -> Option<CallFailureCause> {
        let rule = match self {
            Self::Code => CODE_RULE,
            Self::Rule(rule) => rule,
            Self::Expression(_) => "cannot be applied: an expression of its template fails",
            Self::TooLarge => "cannot be applied: the body would be larger than proxy.body_max",
            Self::Work => WORK_RULE,
            Self::Failed(_) => return None,
        };
        Some(CallFailureCause::new(CallFailureReason::Transform, format!("{path} {rule}")))
    }
}
