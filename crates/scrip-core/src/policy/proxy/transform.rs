//! The transforms of a proxy: changes of a request before it is sent, and of a response before it
//! is returned.

pub mod json_location;
pub mod mask_pattern;
mod proxy_transform;
pub mod source;
pub mod template;
pub mod template_rules;

pub use self::{
    json_location::{JsonLocation, LocationStep, PropertyName},
    mask_pattern::MaskPattern,
    proxy_transform::{MaskMatcher, MatcherType, ProxyTransform, TransformType},
    source::{TransformOptions, TransformSource},
    template::{TemplateObject, TransformTemplate},
    template_rules::TransformStage,
};

use serde::{Deserialize, Serialize};

use crate::FieldError;

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

/// Compiled transforms with the list from which they were compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompiledTransforms<'a> {
    pub(crate) list: &'a TransformList,
    pub(crate) transforms: &'a [ProxyTransform],
}

impl CompiledTransforms<'_> {
    /// The compiled transform of this source. One that cannot run is compiled again, because its
    /// place in the list decides, too.
    fn find(&self, source: &TransformSource) -> Option<&ProxyTransform> {
        let mut pairs = self.list.sources.iter().zip(self.transforms);
        let found = pairs.find(|(it, _)| *it == source).map(|(_, transform)| transform);
        found.filter(|it| !it.is_unusable())
    }
}

pub const TRANSFORMS_MAX: usize = 16;

impl TransformList {
    /// Checks an array of transforms, without compiling them. `field` is the name of its attribute.
    /// Errors: every violated rule, with the path of its attribute.
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
            if let Err(source_errors) = source.check() {
                errors.extend(source_errors.into_iter().map(|it| it.prefix_path(&path)));
                continue;
            }
            if source.transform_type() == TransformType::Code {
                code_count = code_count.saturating_add(1);
            }
            if let Some(identifier) = source.tokenize_identifier() {
                if identifiers.contains(&identifier) {
                    let path = format!("{path}.options.identifier");
                    errors.push(FieldError::new(path, "must be unique within the array"));
                }
                identifiers.push(identifier);
            }
        }
        let order_errors = template_rules::find_order_errors(stage, &sources);
        errors.extend(
            order_errors.map(|(index, rule)| FieldError::new(format!("{field}[{index}]"), rule)),
        );
        if code_count > 1 {
            let rule = "must have at most one transform of type code";
            errors.push(FieldError::new(field.to_owned(), rule));
        }
        if errors.is_empty() { Ok(Self { is_single: false, sources }) } else { Err(errors) }
    }

    /// Checks the transform of the older attribute.
    /// Errors: every violated rule, with the path of its attribute.
    pub fn parse_single(field: &str, source: TransformSource) -> Result<Self, Vec<FieldError>> {
        let rule_errors =
            template_rules::check_template(TransformStage::from_field(field), &source);
        match source.check() {
            Ok(()) if !rule_errors.is_empty() => {
                Err(rule_errors.into_iter().map(|it| it.prefix_path(field)).collect())
            }
            Ok(()) => Ok(Self { is_single: true, sources: vec![source] }),
            Err(errors) => Err(errors.into_iter().map(|it| it.prefix_path(field)).collect()),
        }
    }

    /// The transform, if the client sent it in the older attribute.
    pub fn single(&self) -> Option<&TransformSource> {
        self.sources.first().filter(|_| self.is_single)
    }

    /// The transforms, if the client sent an array.
    pub fn array(&self) -> Option<&[TransformSource]> {
        (!self.is_single && !self.sources.is_empty()).then_some(self.sources.as_slice())
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Compiles new masks, and checks the other transforms: their templates were checked with the
    /// list. `field` is the name of the older attribute. Returns the memory of the compiled masks.
    /// Errors: the first transform that cannot be compiled.
    pub(super) fn compile_new(&self, field: &str) -> Result<u64, FieldError> {
        let mut bytes = 0_u64;
        for (index, source) in self.sources.iter().enumerate() {
            let compiled = match source.has_pattern() {
                true => source.compile().map(|it| it.compiled_bytes()),
                false => source.check().map(|()| 0),
            };
            let compiled_bytes = compiled.map_err(|errors| {
                let first = errors.into_iter().next();
                let error = first.unwrap_or_else(|| FieldError::new("", "is not valid"));
                match self.is_single {
                    true => error.prefix_path(field),
                    false => error.prefix_path(&format!("{field}s[{index}]")),
                }
            })?;
            bytes = bytes.saturating_add(compiled_bytes);
        }
        Ok(bytes)
    }

    /// The number of regular expressions.
    pub(super) fn count_patterns(&self) -> usize {
        self.sources.iter().filter(|it| it.has_pattern()).count()
    }

    /// The memory of the compiled expressions of all templates, by their length.
    pub(super) fn count_expression_bytes(&self) -> usize {
        let bytes = self.sources.iter().map(TransformSource::count_expression_bytes);
        bytes.fold(0, usize::saturating_add)
    }

    /// Compiles stored transforms. `None` if a rule is violated, so that the vault did not write
    /// them.
    ///
    /// `previous` are the compiled transforms of an earlier version: those with the same source are
    /// used again.
    pub(crate) fn compile(
        &self,
        stage: TransformStage,
        previous: Option<CompiledTransforms<'_>>,
    ) -> Option<Vec<ProxyTransform>> {
        let compile = |source: &TransformSource| {
            if let Some(compiled) = previous.as_ref().and_then(|it| it.find(source)) {
                return Some(compiled.clone());
            }
            let compiled = source.compile_stored()?;
            let template = compiled.template().map(TransformTemplate::message);
            match template.is_some_and(|it| template_rules::breaks_rule(stage, source, it)) {
                true => Some(ProxyTransform::RejectedTemplate),
                false => Some(compiled),
            }
        };
        let compiled = self.sources.iter().map(compile);
        let mut transforms = compiled.collect::<Option<Vec<_>>>()?;
        for (index, _) in template_rules::find_order_errors(stage, &self.sources) {
            if let Some(transform) = transforms.get_mut(index) {
                *transform = ProxyTransform::RejectedTemplate;
            }
        }
        Some(transforms)
    }

    /// Whether a stored transform breaks a rule of this version, so that calls are rejected.
    pub fn has_rejected_template(&self, stage: TransformStage) -> bool {
        let is_rejected = |it: &ProxyTransform| matches!(it, ProxyTransform::RejectedTemplate);
        self.compile(stage, None).is_some_and(|it| it.iter().any(is_rejected))
    }

    /// Whether the same transforms run in the same order.
    pub(crate) fn has_same_effect(&self, other: &Self) -> bool {
        self.sources == other.sources
    }
}

#[cfg(test)]
mod tests;
