//! A compiled transform of a proxy, and the types of transforms and of their matchers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::proxy::transform::{JsonLocation, MaskPattern, TransformTemplate};

words! {
    /// The type of a transform.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TransformType {
        Code = "code",
        Mask = "mask",
        Tokenize = "tokenize",
        AppendJson = "append_json",
        AppendText = "append_text",
        AppendHeader = "append_header",
    }
}

words! {
    /// How a mask finds the text that it replaces.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MatcherType {
        Regex = "regex",
        /// The card number in the fixed-width answers of Chase Stratus.
        ChaseStratusPan = "chase_stratus_pan",
    }
}

/// A checked transform, ready to run.
#[derive(Debug, Clone)]
pub enum ProxyTransform {
    /// Code is stored and not run: no worker for code exists yet.
    Code {
        code: String,
    },
    Mask {
        matcher: MaskMatcher,
        replacement: char,
    },
    /// A stored mask that is larger than this version allows. It cannot run.
    OversizedMask,
    /// A stored transform that breaks a rule of this version, such as one with an invalid template.
    /// It cannot run.
    RejectedTemplate,
    /// Creates a token from this body of a create-token request, with expressions in its texts.
    Tokenize {
        token: Value,
        template: TransformTemplate,
        identifier: Option<String>,
    },
    AppendJson {
        location: JsonLocation,
        template: TransformTemplate,
    },
    AppendText {
        template: TransformTemplate,
    },
    AppendHeader {
        name: String,
        template: TransformTemplate,
    },
}

impl ProxyTransform {
    /// The compiled template; `None` if the transform has none.
    pub fn template(&self) -> Option<&TransformTemplate> {
        match self {
            Self::Tokenize { template, .. }
            | Self::AppendJson { template, .. }
            | Self::AppendText { template }
            | Self::AppendHeader { template, .. } => Some(template),
            Self::Code { .. }
            | Self::Mask { .. }
            | Self::OversizedMask
            | Self::RejectedTemplate => None,
        }
    }

    /// Whether this version cannot run the stored transform.
    pub(super) fn is_unusable(&self) -> bool {
        matches!(self, Self::OversizedMask | Self::RejectedTemplate)
    }

    /// The memory of a compiled expression.
    pub(crate) fn compiled_bytes(&self) -> u64 {
        match self {
            Self::Mask { matcher: MaskMatcher::Regex(pattern), .. } => {
                u64::try_from(pattern.compiled_bytes()).unwrap_or(u64::MAX)
            }
            Self::Mask { matcher: MaskMatcher::ChaseStratusPan, .. }
            | Self::Code { .. }
            | Self::OversizedMask
            | Self::RejectedTemplate
            | Self::Tokenize { .. }
            | Self::AppendJson { .. }
            | Self::AppendText { .. }
            | Self::AppendHeader { .. } => 0,
        }
    }
}

#[derive(Debug, Clone)]
pub enum MaskMatcher {
    Regex(MaskPattern),
    ChaseStratusPan,
}
