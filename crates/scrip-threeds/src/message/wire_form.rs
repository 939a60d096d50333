//! The type of a message, and its reading from and writing to JSON.

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    code::codes,
    fault::{ErrorCode, Fault, FaultList},
    format::{ElementContext, TransactionContext},
    json::WipedObject,
    message::record::ElementTable,
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

    /// Checks the message as its receiver would.
    fn check(&self, transaction: &TransactionContext) -> Result<(), Fault> {
        let object = to_wiped_object(self);
        parse_fields::<Self>(&object, transaction).map(|_| ())
    }

    /// The bytes to send. They are wiped when dropped, because they may contain a card number.
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

pub(super) fn parse_fields<M: Message>(
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
