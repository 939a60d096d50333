//! What a write does when an expression fails.

use crate::work_meter::EvaluationInput;

/// The reaction to an expression that fails, or gives no value, on this data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureMode {
    /// Report an error to the caller, who sent the data or may read it.
    Report,
    /// Let the write succeed, because an error would reveal something about hidden data.
    Hide,
}

impl FailureMode {
    pub(super) fn input(self) -> EvaluationInput {
        match self {
            Self::Report => EvaluationInput::Known,
            Self::Hide => EvaluationInput::HiddenWrite,
        }
    }
}

/// The origin of the mask of a written token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaskOrigin {
    /// The request wrote the mask, so the caller gets its errors.
    Request,
    /// The mask was stored before. If it fails on new data, the token shows no masked data: the write of
    /// one caller must not fail because of the mask of another one.
    Stored,
}
