//! Untrusted bytes, parsed in steps into a message.

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    code::codes,
    fault::{ErrorCode, Fault, FaultList},
    format::{ElementContext, TransId, Version, VersionNumber, read_supported_version},
    json::{self, JsonError, WipedObject},
    message::{TransactionContext, element_tables, record::ElementTable},
};

/// Fits the longest `AReq`: 64,000 characters of an SDK and 81,920 of extensions.
pub const MESSAGE_BYTES_MAX: usize = 262_144;
/// Fits the ranges of a large scheme.
pub const RANGES_BYTES_MAX: usize = 48 << 20;

codes! {
    /// The `messageType` of a message.
    pub enum MessageType {
        PReq = "PReq" "PReq",
        PRes = "PRes" "PRes",
        AReq = "AReq" "AReq",
        ARes = "ARes" "ARes",
        CReq = "CReq" "CReq",
        CRes = "CRes" "CRes",
        RReq = "RReq" "RReq",
        RRes = "RRes" "RRes",
        Erro = "Erro" "Erro",
    }
}

/// A message that can be read and written.
#[expect(private_bounds, reason = "only the tables of this crate are messages")]
pub trait Message: ElementTable {
    const TYPE: MessageType;
    const BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    /// Contradictions between elements that are valid individually.
    fn contradictions(&self, _: &TransactionContext) -> Vec<(ErrorCode, &'static str)> {
        Vec::new()
    }

    /// Parses a message of this type. Rejects other types.
    fn parse(bytes: &[u8], transaction: &TransactionContext) -> Result<Self, Fault> {
        Document::parse_within(bytes, Self::BYTES_MAX)?.parse_as(transaction)
    }

    /// Checks the message as its receiver would.
    fn check(&self, transaction: &TransactionContext) -> Result<(), Fault> {
        let object = to_wiped_object(self);
        parse_fields::<Self>(&object, transaction).map(|_| ())
    }

    /// The bytes to send. They are wiped when dropped, because they may contain a card number.
    #[must_use]
    fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let object = to_wiped_object(self);
        // Written twice, because a growing buffer would leave partial copies in memory.
        let mut counter = ByteCounter(0);
        let mut bytes = Zeroizing::new(Vec::new());
        if serde_json::to_writer(&mut counter, &object.0).is_ok() {
            bytes.reserve_exact(counter.0);
        }
        // Writing a map of text to memory cannot fail.
        let written = serde_json::to_writer(&mut *bytes, &object.0);
        debug_assert!(written.is_ok(), "a message is JSON");
        bytes
    }
}

fn to_wiped_object<M: Message>(message: &M) -> WipedObject {
    let mut object = message.write_fields();
    object.insert("messageType".to_owned(), M::TYPE.code().into());
    WipedObject(object)
}

fn parse_fields<M: Message>(
    object: &WipedObject,
    transaction: &TransactionContext,
) -> Result<M, Fault> {
    let mut faults = FaultList::default();
    let mut context = ElementContext { path: String::new(), transaction, faults: &mut faults };
    let message = read_message(&object.0, &mut context);
    match (message, faults.into_lowest_fault()) {
        (Some(message), None) => Ok(message),
        (_, fault) => Err(fault.unwrap_or(Fault::new(ErrorCode::MessageInvalid))),
    }
}

/// Collects every fault, for callers that can report more than one.
pub(crate) fn read_message<M: Message>(
    object: &Map<String, Value>,
    context: &mut ElementContext<'_>,
) -> Option<M> {
    let message = M::read_fields(object, context);
    for (code, name) in message.iter().flat_map(|it| it.contradictions(context.transaction)) {
        context.child(name).add_fault(code);
    }
    message
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

    #[must_use]
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
    #[must_use]
    pub fn version_number(&self) -> Option<VersionNumber> {
        self.text("messageVersion").and_then(VersionNumber::parse)
    }

    /// An id, if it is present and valid: to find the session, or to build an `Erro`.
    #[must_use]
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

struct ByteCounter(usize);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
