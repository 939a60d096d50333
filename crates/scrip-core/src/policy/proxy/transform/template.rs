//! The template of a transform, compiled once with its proxy.
//!
//! What a call needs to know of a template (the values that it reads, the work that it needs) is
//! found here, so that a call compiles nothing and searches no template.

use std::{collections::BTreeSet, sync::Arc};

use scrip_expression::{ExpressionPlace, LeafError, MessageTemplate, PathStep, ReadStep};
use serde_json::Value;

use crate::types::AttributePath;

/// A compiled template. Clones share it.
#[derive(Debug, Clone)]
pub struct TransformTemplate(Arc<CompiledTemplate>);

#[derive(Debug)]
struct CompiledTemplate {
    message: MessageTemplate,
    /// The length of its source: evaluating and copying a text without expressions takes work, too.
    source_bytes: usize,
    /// The distinct values of messages that it reads.
    reads: Vec<TemplateRead>,
    reads_request: bool,
    reads_response: bool,
    encrypted: Option<EncryptedRead>,
}

/// A message that a template reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplateObject {
    Request,
    Response,
}

/// A value of a message, and the place of the expression that reads it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateRead {
    pub object: TemplateObject,
    pub steps: Vec<TemplateStep>,
    pub place: TemplatePlace,
}

/// A step of a path to a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplateStep {
    Name(String),
    Index(i64),
    /// The name is known only in the evaluation.
    Computed,
}

/// The part of a template that contains an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplatePlace {
    CardData,
    /// The data of a token of another type.
    TokenData,
    Other,
}

/// Encrypted data that becomes the whole data of a token.
#[derive(Debug)]
pub struct EncryptedRead {
    /// The name of the object, if there are several.
    pub name: Option<String>,
    /// The token without its data.
    pub rest: Value,
    pub rest_template: MessageTemplate,
}

const REQUEST: &str = "req";
const RESPONSE: &str = "res";

/// The work to look up a step of a read, besides its name.
const STEP_WORK: usize = 16;

impl TransformTemplate {
    /// Compiles the template of a text.
    /// Errors: an expression is invalid.
    pub(super) fn compile_text(text: &str) -> Result<Self, LeafError> {
        Self::compile(&Value::String(text.to_owned()), text.len())
    }

    /// Compiles the template of a token.
    /// Errors: an expression is invalid.
    pub(super) fn compile_token(token: &Value) -> Result<Self, LeafError> {
        Self::compile(token, token.to_string().len())
    }

    fn compile(source: &Value, source_bytes: usize) -> Result<Self, LeafError> {
        let message = compile_template(source)?;
        let [reads_request, reads_response] =
            [REQUEST, RESPONSE].map(|object| message.can_read(&[object]));
        let reads = find_reads(source, &message);
        let encrypted = find_encrypted(source, &message)?;
        let template = CompiledTemplate {
            message,
            source_bytes,
            reads,
            reads_request,
            reads_response,
            encrypted,
        };
        Ok(Self(Arc::new(template)))
    }

    pub fn message(&self) -> &MessageTemplate {
        &self.0.message
    }

    /// Whether an expression can read a part of this message.
    pub fn can_read(&self, object: TemplateObject) -> bool {
        match object {
            TemplateObject::Request => self.0.reads_request,
            TemplateObject::Response => self.0.reads_response,
        }
    }

    /// The distinct values of this message that the template reads.
    pub fn reads(&self, object: TemplateObject) -> impl Iterator<Item = &TemplateRead> {
        self.0.reads.iter().filter(move |it| it.object == object)
    }

    /// The encrypted data that the template makes the data of a token.
    pub fn encrypted(&self) -> Option<&EncryptedRead> {
        self.0.encrypted.as_ref()
    }

    /// The work to look up each value that the template reads, and to walk over its text. The
    /// evaluation is charged on its own.
    pub fn lookup_work(&self) -> usize {
        let step_work = |step: &TemplateStep| match step {
            TemplateStep::Name(name) => name.len().saturating_add(STEP_WORK),
            TemplateStep::Index(_) | TemplateStep::Computed => STEP_WORK,
        };
        let steps = self.0.reads.iter().flat_map(|it| &it.steps).map(step_work);
        let reads = self.0.reads.len().saturating_mul(STEP_WORK);
        steps.fold(self.0.source_bytes.saturating_add(reads), usize::saturating_add)
    }
}

/// Compiles a template. Only this module and the check of a written proxy do.
/// Errors: an expression is invalid.
pub(super) fn compile_template(source: &Value) -> Result<MessageTemplate, LeafError> {
    MessageTemplate::parse(source, ExpressionPlace::Transform)
}

/// An estimate of the memory of a compiled text: an expression needs up to about this many bytes for a
/// byte of its source.
const BYTES_PER_SOURCE_BYTE: usize = 32;

/// The memory of the compiled expressions of a text, by its length.
pub(super) fn count_expression_bytes(text: &str) -> usize {
    let Some(start) = text.find("{{") else { return 0 };
    let end = text.rfind("}}").unwrap_or(text.len());
    end.saturating_sub(start).saturating_mul(BYTES_PER_SOURCE_BYTE)
}

/// The path of an expression in the attribute of a template.
pub(super) fn leaf_path(field: &str, path: &[PathStep]) -> String {
    match AttributePath::from_steps(path).as_str() {
        "" => field.to_owned(),
        inner if inner.starts_with('[') => format!("{field}{inner}"),
        inner => format!("{field}.{inner}"),
    }
}

fn find_reads(source: &Value, template: &MessageTemplate) -> Vec<TemplateRead> {
    let is_card = source.get("type").and_then(Value::as_str) == Some("card");
    let mut reads = BTreeSet::new();
    for (path, text) in template.leaves() {
        let place = match path.first() {
            Some(PathStep::Name(name)) if name == "data" && is_card => TemplatePlace::CardData,
            Some(PathStep::Name(name)) if name == "data" => TemplatePlace::TokenData,
            Some(_) | None => TemplatePlace::Other,
        };
        for read in text.reads() {
            let object = match read.object {
                REQUEST => TemplateObject::Request,
                RESPONSE => TemplateObject::Response,
                _ => continue,
            };
            let steps = read.steps.into_iter().map(TemplateStep::from).collect();
            reads.insert(TemplateRead { object, steps, place });
        }
    }
    reads.into_iter().collect()
}

impl From<ReadStep<'_>> for TemplateStep {
    fn from(step: ReadStep<'_>) -> Self {
        match step {
            ReadStep::Name(name) => Self::Name(name.to_owned()),
            ReadStep::Index(index) => Self::Index(index),
            ReadStep::Computed => Self::Computed,
        }
    }
}

/// Errors: an expression is invalid.
fn find_encrypted(
    source: &Value,
    template: &MessageTemplate,
) -> Result<Option<EncryptedRead>, LeafError> {
    let leaves = template.leaves();
    let mut reads = leaves.iter().flat_map(|(_, text)| text.reads());
    let Some(read) = reads.find(|it| it.object == "encrypted") else { return Ok(None) };
    let names = read.steps.iter().filter_map(|step| match step {
        ReadStep::Name(name) => Some(*name),
        ReadStep::Index(_) | ReadStep::Computed => None,
    });
    let names: Vec<_> = names.collect();
    let name = match names.as_slice() {
        [name] | [name, "data"] if *name != "data" => Some((*name).to_owned()),
        _ => None,
    };
    let mut rest = source.clone();
    // The data takes this place after the request was parsed.
    if let Value::Object(members) = &mut rest {
        members.insert("data".to_owned(), Value::String(String::new()));
    }
    let rest_template = compile_template(&rest)?;
    Ok(Some(EncryptedRead { name, rest, rest_template }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_reads_of_a_template_count_once() {
        let template =
            TransformTemplate::compile_text(&"{{ req.a.b }}{{ req.c[0] }}".repeat(500)).unwrap();
        assert_eq!(template.reads(TemplateObject::Request).count(), 2);
        assert_eq!(template.reads(TemplateObject::Response).count(), 0);
        assert!(template.lookup_work() >= 500 * 26);
        assert!(!template.can_read(TemplateObject::Response));
    }

    #[test]
    fn reads_name_their_place() {
        let places = |token: Value| -> Vec<_> {
            let template = TransformTemplate::compile_token(&token).unwrap();
            template.reads(TemplateObject::Response).map(|it| it.place).collect()
        };
        let token = |token_type: &str| json!({"type": token_type, "data": {"a": "{{ res.a }}"}, "metadata": "{{ res.a }}"});
        assert_eq!(places(token("card")), [TemplatePlace::CardData, TemplatePlace::Other]);
        assert_eq!(places(token("token")), [TemplatePlace::TokenData, TemplatePlace::Other]);
    }

    #[test]
    fn encrypted_data_leaves_the_rest_of_the_token() {
        let token = json!({"type": "card", "data": "{{ encrypted.payer }}", "id": "{{ req.id }}"});
        let template = TransformTemplate::compile_token(&token).unwrap();
        let encrypted = template.encrypted().unwrap();
        assert_eq!(encrypted.name.as_deref(), Some("payer"));
        assert_eq!(encrypted.rest["data"], "");
        assert!(!encrypted.rest_template.can_read(&["encrypted"]));
    }
}
