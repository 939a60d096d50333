//! A transform as clients send it and as it is stored, and its rules.

use scrip_expression::LeafError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    FieldError,
    policy::proxy::{
        ProxyTransform,
        transform::{
            JsonLocation, MaskMatcher, MaskPattern, MatcherType, TransformTemplate, TransformType,
            template::{count_expression_bytes, leaf_path},
        },
    },
};

/// The attributes of a transform. Which of them are required depends on the type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransformSource {
    /// `code` if absent.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub transform_type: Option<TransformType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<MatcherType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<TransformOptions>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransformOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Settings of the worker that runs the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Value>,
}

pub const CODE_CHARS_MAX: usize = 50_000;
pub const IDENTIFIER_CHARS_MAX: usize = 100;
/// The maximum size of the value of an append transform, and of the JSON of a token or a runtime.
pub const OPTION_BYTES_MAX: usize = 32 * 1024;
const HEADER_NAME_BYTES_MAX: usize = 128;

/// Headers that frame a message or belong to one connection. The HTTP library writes them.
const CONNECTION_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const REQUIRED: &str = "is required";

impl TransformSource {
    pub fn transform_type(&self) -> TransformType {
        self.transform_type.unwrap_or(TransformType::Code)
    }

    /// Checks the rules of the type, without compiling the expression of a mask.
    /// Errors: every violated rule, with the path of its attribute.
    pub(super) fn check(&self) -> Result<(), Vec<FieldError>> {
        let mut rules = RuleCheck::new(self);
        rules.check_type();
        if rules.errors.is_empty() { Ok(()) } else { Err(rules.errors) }
    }

    /// Checks and compiles the transform.
    /// Errors: every violated rule, with the path of its attribute.
    pub fn compile(&self) -> Result<ProxyTransform, Vec<FieldError>> {
        self.compile_with_rules().map_err(|it| it.errors)
    }

    /// Compiles a stored transform. A mask that is too large and an invalid template were allowed by an
    /// earlier version: their proxy can be read and changed, and its calls are rejected.
    pub(super) fn compile_stored(&self) -> Option<ProxyTransform> {
        match self.compile_with_rules() {
            Ok(transform) => Some(transform),
            Err(RuleCheck { stored_as, errors, .. }) if errors.len() == 1 => stored_as,
            Err(_) => None,
        }
    }

    /// The memory of the compiled expressions of its template, by their length.
    pub(super) fn count_expression_bytes(&self) -> usize {
        let Some(options) = &self.options else { return 0 };
        let token = options.token.as_ref().map(Value::to_string);
        let texts = token.iter().chain(&options.value);
        texts.map(|it| count_expression_bytes(it)).fold(0, usize::saturating_add)
    }

    /// The name under which later transforms find the token of this one.
    pub(super) fn tokenize_identifier(&self) -> Option<&str> {
        let is_tokenize = self.transform_type() == TransformType::Tokenize;
        self.options.as_ref().filter(|_| is_tokenize)?.identifier.as_deref()
    }

    /// Whether the transform has a regular expression that is compiled.
    pub(crate) fn has_pattern(&self) -> bool {
        self.transform_type() == TransformType::Mask && self.expression.is_some()
    }

    fn compile_with_rules(&self) -> Result<ProxyTransform, RuleCheck<'_>> {
        let mut rules = RuleCheck::new(self);
        let checked = rules.check_type();
        let transform = checked.filter(|_| rules.errors.is_empty());
        transform.and_then(|it| rules.compile_checked(it)).ok_or(rules)
    }
}

/// A transform whose rules were checked. Its expressions are not compiled yet.
enum CheckedTransform<'a> {
    Complete(ProxyTransform),
    RegexMask { expression: &'a str, replacement: char },
    Tokenize { token: &'a Value, identifier: Option<String> },
    AppendJson { location: JsonLocation, value: &'a str },
    AppendText { value: &'a str },
    AppendHeader { name: String, value: &'a str },
}

/// Collects the violated rules of one transform.
struct RuleCheck<'a> {
    source: &'a TransformSource,
    errors: Vec<FieldError>,
    /// What a stored transform becomes whose only error an earlier version allowed.
    stored_as: Option<ProxyTransform>,
}

impl<'a> RuleCheck<'a> {
    fn new(source: &'a TransformSource) -> Self {
        Self { source, errors: Vec::new(), stored_as: None }
    }

    fn check_type(&mut self) -> Option<CheckedTransform<'a>> {
        self.check_unused_attributes();
        match self.source.transform_type() {
            TransformType::Mask => self.check_mask(),
            TransformType::Code => self.check_code(),
            TransformType::Tokenize => self.check_tokenize(),
            TransformType::AppendJson => self.check_append_json(),
            TransformType::AppendText => {
                self.value().map(|value| CheckedTransform::AppendText { value })
            }
            TransformType::AppendHeader => self.check_append_header(),
        }
    }

    fn compile_checked(&mut self, checked: CheckedTransform<'a>) -> Option<ProxyTransform> {
        Some(match checked {
            CheckedTransform::Complete(transform) => transform,
            CheckedTransform::RegexMask { expression, replacement } => {
                let matcher = MaskMatcher::Regex(self.compile_pattern(expression)?);
                ProxyTransform::Mask { matcher, replacement }
            }
            CheckedTransform::Tokenize { token, identifier } => {
                let template = TransformTemplate::compile_token(token);
                let template = self.check_compiled(template, "options.token")?;
                ProxyTransform::Tokenize { token: token.clone(), template, identifier }
            }
            CheckedTransform::AppendJson { location, value } => {
                ProxyTransform::AppendJson { location, template: self.compile_value(value)? }
            }
            CheckedTransform::AppendText { value } => {
                ProxyTransform::AppendText { template: self.compile_value(value)? }
            }
            CheckedTransform::AppendHeader { name, value } => {
                ProxyTransform::AppendHeader { name, template: self.compile_value(value)? }
            }
        })
    }

    fn compile_value(&mut self, value: &str) -> Option<TransformTemplate> {
        self.check_compiled(TransformTemplate::compile_text(value), "options.value")
    }

    fn check_compiled(
        &mut self,
        template: Result<TransformTemplate, LeafError>,
        field: &'static str,
    ) -> Option<TransformTemplate> {
        template
            .map_err(|error| {
                let path = leaf_path(field, &error.path);
                self.errors.push(FieldError::from_expression_error(path, error.cause));
                self.stored_as = Some(ProxyTransform::RejectedTemplate);
            })
            .ok()
    }

    fn compile_pattern(&mut self, expression: &str) -> Option<MaskPattern> {
        match MaskPattern::parse(expression) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                self.stored_as = error.was_allowed().then_some(ProxyTransform::OversizedMask);
                self.reject("expression", error.rule());
                None
            }
        }
    }

    fn reject(&mut self, field: &'static str, rule: &'static str) {
        self.errors.push(FieldError::new(field, rule));
    }

    /// An attribute of another type is a mistake: the client expects an effect that it does not
    /// have.
    fn check_unused_attributes(&mut self) {
        let source = self.source;
        let transform_type = source.transform_type();
        if source.code.is_some() && transform_type != TransformType::Code {
            self.reject("code", "is only allowed for the type code");
        }
        if transform_type != TransformType::Mask {
            let mask_attributes = [
                ("matcher", source.matcher.is_some()),
                ("expression", source.expression.is_some()),
                ("replacement", source.replacement.is_some()),
            ];
            for (field, _) in mask_attributes.into_iter().filter(|(_, is_present)| *is_present) {
                self.reject(field, "is only allowed for the type mask");
            }
        }
    }

    fn options(&self) -> Option<&'a TransformOptions> {
        self.source.options.as_ref()
    }

    fn check_code(&mut self) -> Option<CheckedTransform<'a>> {
        let runtime = self.options().and_then(|it| it.runtime.as_ref());
        if runtime.is_some_and(|it| !it.is_object() || it.to_string().len() > OPTION_BYTES_MAX) {
            self.reject("options.runtime", "must be an object of at most 32 KiB");
        }
        let Some(code) = self.source.code.as_deref().filter(|it| !it.trim().is_empty()) else {
            self.reject("code", REQUIRED);
            return None;
        };
        if code.chars().count() > CODE_CHARS_MAX {
            self.reject("code", "must have at most 50,000 characters");
        }
        Some(CheckedTransform::Complete(ProxyTransform::Code { code: code.to_owned() }))
    }

    fn check_mask(&mut self) -> Option<CheckedTransform<'a>> {
        let expression = self.source.expression.as_deref();
        match (self.source.matcher, expression) {
            (None, _) => self.reject("matcher", REQUIRED),
            (Some(MatcherType::Regex), None) => {
                self.reject("expression", "is required for the matcher regex");
            }
            (Some(MatcherType::ChaseStratusPan), Some(_)) => {
                self.reject("expression", "is not allowed for the matcher chase_stratus_pan");
            }
            (Some(MatcherType::Regex), Some(_)) | (Some(MatcherType::ChaseStratusPan), None) => (),
        }
        let mut characters = self.source.replacement.as_deref().unwrap_or_default().chars();
        let replacement = match (characters.next(), characters.next()) {
            (Some(it), None) if !it.is_control() => Some(it),
            (None, _) => {
                self.reject("replacement", REQUIRED);
                None
            }
            (Some(_), _) => {
                self.reject("replacement", "must be one character");
                None
            }
        };
        let replacement = replacement?;
        Some(match expression {
            Some(expression) => CheckedTransform::RegexMask { expression, replacement },
            None => CheckedTransform::Complete(ProxyTransform::Mask {
                matcher: MaskMatcher::ChaseStratusPan,
                replacement,
            }),
        })
    }

    fn check_tokenize(&mut self) -> Option<CheckedTransform<'a>> {
        let options = self.options();
        let identifier = options.and_then(|it| it.identifier.clone());
        let length = identifier.as_ref().map(|it| it.chars().count());
        if length.is_some_and(|it| it == 0 || it > IDENTIFIER_CHARS_MAX) {
            self.reject("options.identifier", "must have 1 to 100 characters");
        }
        let Some(token) = options.and_then(|it| it.token.as_ref()) else {
            self.reject("options.token", REQUIRED);
            return None;
        };
        if !token.is_object() || token.to_string().len() > OPTION_BYTES_MAX {
            self.reject("options.token", "must be an object of at most 32 KiB");
        }
        Some(CheckedTransform::Tokenize { token, identifier })
    }

    fn check_append_json(&mut self) -> Option<CheckedTransform<'a>> {
        let (location, value) = (self.location(), self.value());
        let location = match JsonLocation::parse(location?) {
            Ok(location) => location,
            Err(rule) => {
                self.reject("options.location", rule);
                return None;
            }
        };
        Some(CheckedTransform::AppendJson { location, value: value? })
    }

    fn check_append_header(&mut self) -> Option<CheckedTransform<'a>> {
        let (name, value) = (self.location(), self.value());
        let name = name?.to_ascii_lowercase();
        let is_name_byte = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
        if name.len() > HEADER_NAME_BYTES_MAX || !name.bytes().all(is_name_byte) {
            self.reject("options.location", "must be the name of a header");
        } else if CONNECTION_HEADERS.contains(&name.as_str()) {
            self.reject("options.location", "must not be a header of the connection");
        }
        Some(CheckedTransform::AppendHeader { name, value: value? })
    }

    fn location(&mut self) -> Option<&'a str> {
        let location = self.options().and_then(|it| it.location.as_deref());
        let location = location.filter(|it| !it.is_empty());
        if location.is_none() {
            self.reject("options.location", REQUIRED);
        }
        location
    }

    fn value(&mut self) -> Option<&'a str> {
        let Some(value) = self.options().and_then(|it| it.value.as_deref()) else {
            self.reject("options.value", REQUIRED);
            return None;
        };
        if value.len() > OPTION_BYTES_MAX {
            self.reject("options.value", "must have at most 32 KiB");
        }
        Some(value)
    }
}
