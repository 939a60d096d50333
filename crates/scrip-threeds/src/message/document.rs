//! Bytes from outside, until they are a message.

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    code::codes,
    fault::{ErrorCode, Fault, FaultList},
    format::{ElementContext, TransId, Version, VersionNumber, read_supported_version},
    json::{self, JsonError, WipedObject},
    message::{TransactionContext, element_tables, record::ElementTable},
};

/// Room for the longest `AReq`: 64,000 characters of an SDK and 81,920 of extensions.
pub const MESSAGE_BYTES_MAX: usize = 262_144;
/// Room for the ranges of a large scheme.
pub const RANGES_BYTES_MAX: usize = 48 << 20;

codes! {
    /// What a message says it is.
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

/// A message that can be read and written whole.
#[expect(private_bounds, reason = "only the tables of this crate are messages")]
pub trait Message: ElementTable {
    const TYPE: MessageType;
    const BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    /// What no single element shows.
    fn contradictions(&self, _: &TransactionContext) -> Vec<(ErrorCode, &'static str)> {
        Vec::new()
    }

    /// A message of this type, and nothing else.
    fn parse(bytes: &[u8], transaction: &TransactionContext) -> Result<Self, Fault> {
        Document::parse_within(bytes, Self::BYTES_MAX)?.parse_as(transaction)
    }

    /// What the other side would say of it.
    fn check(&self, transaction: &TransactionContext) -> Result<(), Fault> {
        let object = to_wiped_object(self);
        parse_fields::<Self>(&object, transaction).map(|_| ())
    }

    /// As it is sent. The bytes may hold a card number, and are wiped.
    #[must_use]
    fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let object = to_wiped_object(self);
        // Twice, so that no half-grown copy is left behind in memory.
        let mut counter = ByteCounter(0);
        let mut bytes = Zeroizing::new(Vec::new());
        if serde_json::to_writer(&mut counter, &object.0).is_ok() {
            bytes.reserve_exact(counter.0);
        }
        // A map of texts can always be written to memory.
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

/// Every fault there is, for whoever can tell them one by one.
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

/// A JSON object that says which message it is. Its elements are not checked yet.
#[derive(Debug)]
pub struct Document {
    object: WipedObject,
    message_type: MessageType,
}

impl Document {
    /// Any message but the largest.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        Self::parse_within(bytes, MESSAGE_BYTES_MAX)
    }

    /// Of a given size.
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

    /// Its version, if it is one that we speak.
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

    /// Which version it names, spoken or not: an answer to it says the same.
    #[must_use]
    pub fn version_number(&self) -> Option<VersionNumber> {
        self.text("messageVersion").and_then(VersionNumber::parse)
    }

    /// An id, if there is one that has its format: to find the session, or to answer an error.
    #[must_use]
    pub fn trans_id(&self, name: &str) -> Option<TransId> {
        self.text(name).and_then(|it| TransId::parse(it).ok())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.object.0.get(name).and_then(Value::as_str)
    }

    /// The message, checked whole. The scene's version must be the message's own, except in an
    /// `Erro`, which may tell of a version that nobody speaks.
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

/// The name is the sender's text, and is told only if it is also one of ours.
fn duplicate_fault(name: &str) -> Fault {
    let known = element_tables().iter().flat_map(|it| it.iter()).find(|it| it.name == name);
    let fault = known.map(|it| Fault::for_element(ErrorCode::ElementDuplicate, it.name));
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
