//! The `Erro` about a document that was rejected.

use crate::{
    fault::{Component, Fault},
    format::{Alphanumeric, Digits, Text, Version},
    message::{Document, Erro, MessageType},
};

/// The message that an error refers to, as far as it could be read.
#[derive(Debug, Default)]
pub struct ErroSubject<'a> {
    pub document: Option<&'a Document>,
    /// The expected type, for a message that could not be read at all.
    pub expected: Option<MessageType>,
}

impl Erro {
    /// The `Erro` for a rejected message.
    pub fn for_fault(fault: &Fault, component: Component, subject: &ErroSubject<'_>) -> Self {
        let id = |name| subject.document.and_then(|it| it.trans_id(name));
        let version = subject.document.and_then(Document::version_number);
        let message_type = subject.document.map(Document::message_type).or(subject.expected);
        let detail = if fault.elements.is_empty() {
            fault.code.name().to_owned()
        } else {
            fault.elements.join(",")
        };
        Self {
            message_version: version.unwrap_or(Version::V220.number()),
            server_trans_id: id("threeDSServerTransID"),
            acs_trans_id: id("acsTransID"),
            ds_trans_id: id("dsTransID"),
            sdk_trans_id: id("sdkTransID"),
            code: Digits::from_trusted(fault.code.code()),
            component,
            description: Text::from_trusted(fault.code.name()),
            detail: Text::parse(&detail).ok(),
            message_type: message_type.and_then(|it| Alphanumeric::parse(it.code()).ok()),
        }
    }
}
