//! The transforms of a proxy: changes of a request before it is sent, and of a response before it
//! is returned.

pub mod json_location;
pub mod mask_pattern;
pub mod source;
pub mod template_rules;

pub use self::{
    json_location::{JsonLocation, LocationStep},
    mask_pattern::MaskPattern,
    source::{TransformOptions, TransformSource},
    template_rules::TransformStage,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::FieldError;

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
    /// A stored template that breaks a rule of this version. It cannot run.
    RejectedTemplate,
    /// Creates a token from this body of a create-token request, with expressions in its texts.
    Tokenize {
        token: Value,
        identifier: Option<String>,
    },
    AppendJson {
        location: JsonLocation,
        value: String,
    },
    AppendText {
        value: String,
    },
    AppendHeader {
        name: String,
        value: String,
    },
}

#[derive(Debug, Clone)]
pub enum MaskMatcher {
    Regex(MaskPattern),
    ChaseStratusPan,
}

/// The transforms of a request or of a response, in the order in which they run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransformList {
    /// Whether the client sent one transform in the older attribute without an `s`. A response uses
    /// the same attribute.
    #[serde(default)]
    is_single: bool,
    #[serde(default)]
    sources: Vec<TransformSource>,
}

pub const TRANSFORMS_MAX: usize = 16;

impl TransformList {
    /// Checks an array of transforms. `field` is the name of its attribute.
    ///
    /// # Errors
    /// Every violated rule, with the path of its attribute.
    pub fn parse(field: &str, sources: Vec<TransformSource>) -> Result<Self, Vec<FieldError>> {
        if sources.len() > TRANSFORMS_MAX {
            return Err(vec![FieldError::new(field.to_owned(), "must have at most 16 transforms")]);
        }
        let mut errors = Vec::new();
        let mut identifiers = Vec::new();
        let mut code_count = 0_usize;
        let stage = TransformStage::from_field(field);
        for (index, source) in sources.iter().enumerate() {
            let path = format!("{field}[{index}]");
            let rule_errors = template_rules::check_template(stage, source);
            errors.extend(rule_errors.into_iter().map(|it| it.prefix_path(&path)));
            match source.compile() {
                Err(source_errors) => {
                    errors.extend(source_errors.into_iter().map(|it| it.prefix_path(&path)));
                }
                Ok(ProxyTransform::Code { .. }) => code_count = code_count.saturating_add(1),
                Ok(ProxyTransform::Tokenize { identifier: Some(identifier), .. }) => {
                    if identifiers.contains(&identifier) {
                        let path = format!("{path}.options.identifier");
                        errors.push(FieldError::new(path, "must be unique within the array"));
                    }
                    identifiers.push(identifier);
                }
                Ok(_) => (),
            }
        }
        if code_count > 1 {
            let rule = "must have at most one transform of type code";
            errors.push(FieldError::new(field.to_owned(), rule));
        }
        if errors.is_empty() { Ok(Self { is_single: false, sources }) } else { Err(errors) }
    }

    /// Checks the transform of the older attribute.
    ///
    /// # Errors
    /// Every violated rule, with the path of its attribute.
    pub fn parse_single(field: &str, source: TransformSource) -> Result<Self, Vec<FieldError>> {
        let rule_errors =
            template_rules::check_template(TransformStage::from_field(field), &source);
        match source.compile() {
            Ok(_) if !rule_errors.is_empty() => {
                Err(rule_errors.into_iter().map(|it| it.prefix_path(field)).collect())
            }
            Ok(_) => Ok(Self { is_single: true, sources: vec![source] }),
            Err(errors) => Err(errors.into_iter().map(|it| it.prefix_path(field)).collect()),
        }
    }

    /// The transform, if the client sent it in the older attribute.
    #[must_use]
    pub fn single(&self) -> Option<&TransformSource> {
        self.sources.first().filter(|_| self.is_single)
    }

    /// The transforms, if the client sent an array.
    #[must_use]
    pub fn array(&self) -> Option<&[TransformSource]> {
        (!self.is_single && !self.sources.is_empty()).then_some(self.sources.as_slice())
    }

    /// Compiles stored transforms. `None` if a rule is violated, so that the vault did not write
    /// them.
    pub(crate) fn compile(&self, stage: TransformStage) -> Option<Vec<ProxyTransform>> {
        let compile = |source: &TransformSource| match template_rules::breaks_rule(stage, source) {
            true => Some(ProxyTransform::RejectedTemplate),
            false => source.compile_stored(),
        };
        self.sources.iter().map(compile).collect()
    }

    /// Whether a stored template breaks a rule of this version, so that calls are rejected.
    #[must_use]
    pub fn has_rejected_template(&self, stage: TransformStage) -> bool {
        self.sources.iter().any(|it| template_rules::breaks_rule(stage, it))
    }

    /// Whether the same transforms run in the same order.
    pub(crate) fn has_same_effect(&self, other: &Self) -> bool {
        self.sources == other.sources
    }
}

#[cfg(test)]
mod tests;
