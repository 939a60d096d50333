//! Untrusted bytes, parsed in steps into a message.

use serde_json::Value;

use crate::{
    fault::{Component, ErrorCode, Fault, FaultList},
    format::{
        Alphanumeric, Digits, ElementContext, ElementFormat, Text, TransId, TransactionContext,
        Version, VersionNumber,
    },
    json::{self, JsonError, WipedObject},
    message::{
        AReq, ARes, AccountInfo, AcsRendering, AuthenticationInfo, CReq, CRes, CardRange,
        DeviceRendering, EphemeralKey, Erro, Extension, Image, MerchantRisk, PReq, PRes, Phone,
        PriorAuthenticationInfo, RReq, RRes,
        record::{ElementDefinition, ElementTable},
        wire_form::{MESSAGE_BYTES_MAX, Message, MessageType, parse_fields},
    },
};

/// Parses a message of type `M`. Rejects other types.
pub fn parse_message<M: Message>(
    bytes: &[u8],
    transaction: &TransactionContext,
) -> Result<M, Fault> {
    Document::parse_within(bytes, M::BYTES_MAX)?.parse_as(transaction)
}

/// A JSON object with a known message type. Its elements are not checked yet.
#[derive(Debug)]
pub struct Document {
    object: WipedObject,
    message_type: MessageType,
}

impl Document {
    /// Parses a message of at most [`MESSAGE_BYTES_MAX`] bytes. Only a `PRes` may be larger.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        Self::parse_within(bytes, MESSAGE_BYTES_MAX)
    }

    /// Parses a message of at most `bytes_max` bytes.
    pub fn parse_within(bytes: &[u8], bytes_max: usize) -> Result<Self, Fault> {
        if bytes.len() > bytes_max {
            return Err(Fault::new(ErrorCode::MessageInvalid));
        }
        let object = json::parse_object(bytes).map_err(|unread| match unread {
            JsonError::Malformed => Fault::new(ErrorCode::MessageInvalid),
            JsonError::Duplicate(name) => duplicate_fault(&name),
        })?;
        let message_type = object.0.get("messageType").and_then(Value::as_str);
        let message_type = message_type.and_then(MessageType::from_code);
        let message_type =
            message_type.ok_or(Fault::for_element(ErrorCode::MessageInvalid, "messageType"))?;
        Ok(Self { object, message_type })
    }

    pub fn message_type(&self) -> MessageType {
        self.message_type
    }

    /// The version of the message, if it is supported.
    pub fn version(&self) -> Result<Version, Fault> {
        let mut faults = FaultList::default();
        let transaction = TransactionContext::for_version(Version::V220);
        let mut context = ElementContext {
            path: "messageVersion".to_owned(),
            transaction: &transaction,
            faults: &mut faults,
        };
        let version = read_supported_version(self.object.0.get("messageVersion"), &mut context);
        version
            .ok_or(faults.into_lowest_fault().unwrap_or(Fault::new(ErrorCode::VersionUnsupported)))
    }

    /// The version that the message names, supported or not. A response repeats it.
    pub fn version_number(&self) -> Option<VersionNumber> {
        self.text("messageVersion").and_then(VersionNumber::parse)
    }

    /// An id, if it is present and valid: to find the session, or to build an `Erro`.
    pub fn trans_id(&self, name: &str) -> Option<TransId> {
        self.text(name).and_then(|it| TransId::parse(it).ok())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.object.0.get(name).and_then(Value::as_str)
    }

    /// Checks and returns the message. The version of `transaction` must match the message. Only an
    /// `Erro` may name any version, including unsupported ones.
    pub fn parse_as<M: Message>(&self, transaction: &TransactionContext) -> Result<M, Fault> {
        if self.message_type != M::TYPE {
            return Err(Fault::for_element(ErrorCode::MessageInvalid, "messageType"));
        }
        if self.message_type != MessageType::Erro && self.version()? != transaction.version {
            return Err(Fault::for_element(ErrorCode::FormatInvalid, "messageVersion"));
        }
        parse_fields(&self.object, transaction)
    }
}

/// The name is text of the sender. The fault contains it only if it is also in our tables.
fn duplicate_fault(name: &str) -> Fault {
    let element = element_tables().iter().flat_map(|it| it.iter()).find(|it| it.name == name);
    let fault = element.map(|it| Fault::for_element(ErrorCode::ElementDuplicate, it.name));
    fault.unwrap_or(Fault::new(ErrorCode::ElementDuplicate))
}

/// The `messageVersion` of a message. An unsupported version has its own error code.
fn read_supported_version(
    value: Option<&Value>,
    context: &mut ElementContext<'_>,
) -> Option<Version> {
    let Some(value) = value else {
        context.add_fault(ErrorCode::ElementMissing);
        return None;
    };
    let number = VersionNumber::read(value, context)?;
    let version = Version::from_code(&number.to_string());
    if version.is_none() {
        context.add_fault(ErrorCode::VersionUnsupported);
    }
    version
}

/// The elements of all messages and of all objects in messages.
pub(in crate::message) fn element_tables() -> [&'static [ElementDefinition]; 20] {
    [
        PReq::FIELDS,
        PRes::FIELDS,
        CardRange::FIELDS,
        AReq::FIELDS,
        AccountInfo::FIELDS,
        AuthenticationInfo::FIELDS,
        PriorAuthenticationInfo::FIELDS,
        Phone::FIELDS,
        MerchantRisk::FIELDS,
        DeviceRendering::FIELDS,
        EphemeralKey::FIELDS,
        ARes::FIELDS,
        AcsRendering::FIELDS,
        CReq::FIELDS,
        CRes::FIELDS,
        RReq::FIELDS,
        RRes::FIELDS,
        Erro::FIELDS,
        Extension::FIELDS,
        Image::FIELDS,
    ]
}

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
