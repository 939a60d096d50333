//! Bytes from outside, until they are a message.

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    code::codes,
    fault::{ErrorCode, Fault, Faults},
    format::{Place, TransId, Version, VersionNumber, spoken},
    json::{self, Plain, Unread},
    message::{Scene, record::Record, tables},
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
pub trait Message: Record {
    const TYPE: MessageType;
    const BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    /// What no single element shows.
    fn contradictions(&self, _: &Scene) -> Vec<(ErrorCode, &'static str)> {
        Vec::new()
    }

    /// A message of this type, and nothing else.
    fn parse(bytes: &[u8], scene: &Scene) -> Result<Self, Fault> {
        Document::within(bytes, Self::BYTES_MAX)?.read_as(scene)
    }

    /// What the other side would say of it.
    fn check(&self, scene: &Scene) -> Result<(), Fault> {
        let plain = plain(self);
        read_fields::<Self>(&plain, scene).map(|_| ())
    }

    /// As it is sent. The bytes may hold a card number, and are wiped.
    #[must_use]
    fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let plain = plain(self);
        // Twice, so that no half-grown copy is left behind in memory.
        let mut count = Count(0);
        let mut bytes = Zeroizing::new(Vec::new());
        if serde_json::to_writer(&mut count, &plain.0).is_ok() {
            bytes.reserve_exact(count.0);
        }
        // A map of texts can always be written to memory.
        let written = serde_json::to_writer(&mut *bytes, &plain.0);
        debug_assert!(written.is_ok(), "a message is JSON");
        bytes
    }
}

fn plain<M: Message>(message: &M) -> Plain {
    let mut object = message.write_fields();
    object.insert("messageType".to_owned(), M::TYPE.code().into());
    Plain(object)
}

fn read_fields<M: Message>(plain: &Plain, scene: &Scene) -> Result<M, Fault> {
    let mut faults = Faults::default();
    let mut place = Place { path: String::new(), scene, faults: &mut faults };
    let read = read_whole(&plain.0, &mut place);
    match (read, faults.into_fault()) {
        (Some(message), None) => Ok(message),
        (_, fault) => Err(fault.unwrap_or(Fault::of(ErrorCode::MessageInvalid))),
    }
}

/// Every fault there is, for whoever can tell them one by one.
pub(crate) fn read_whole<M: Message>(
    object: &Map<String, Value>,
    place: &mut Place<'_>,
) -> Option<M> {
    let read = M::read_fields(object, place);
    for (code, name) in read.iter().flat_map(|it| it.contradictions(place.scene)) {
        place.below(name).fault(code);
    }
    read
}

/// A JSON object that says which message it is. Its elements are not checked yet.
#[derive(Debug)]
pub struct Document {
    object: Plain,
    kind: MessageType,
}

impl Document {
    /// Any message but the largest.
    pub fn read(bytes: &[u8]) -> Result<Self, Fault> {
        Self::within(bytes, MESSAGE_BYTES_MAX)
    }

    /// Of a given size.
    pub fn within(bytes: &[u8], bytes_max: usize) -> Result<Self, Fault> {
        if bytes.len() > bytes_max {
            return Err(Fault::of(ErrorCode::MessageInvalid));
        }
        let object = json::read(bytes).map_err(|unread| match unread {
            Unread::Malformed => Fault::of(ErrorCode::MessageInvalid),
            Unread::Duplicate(name) => duplicate(&name),
        })?;
        let kind = object.0.get("messageType").and_then(Value::as_str);
        let kind = kind.and_then(MessageType::from_code);
        let kind = kind.ok_or(Fault::at(ErrorCode::MessageInvalid, "messageType"))?;
        Ok(Self { object, kind })
    }

    #[must_use]
    pub fn kind(&self) -> MessageType {
        self.kind
    }

    /// Its version, if it is one that we speak.
    pub fn version(&self) -> Result<Version, Fault> {
        let mut faults = Faults::default();
        let scene = Scene::of(Version::V220);
        let mut place =
            Place { path: "messageVersion".to_owned(), scene: &scene, faults: &mut faults };
        let version = spoken(self.object.0.get("messageVersion"), &mut place);
        version.ok_or(faults.into_fault().unwrap_or(Fault::of(ErrorCode::VersionUnsupported)))
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
    pub fn read_as<M: Message>(&self, scene: &Scene) -> Result<M, Fault> {
        if self.kind != M::TYPE {
            return Err(Fault::at(ErrorCode::MessageInvalid, "messageType"));
        }
        if self.kind != MessageType::Erro && self.version()? != scene.version {
            return Err(Fault::at(ErrorCode::FormatInvalid, "messageVersion"));
        }
        read_fields(&self.object, scene)
    }
}

/// The name is the sender's text, and is told only if it is also one of ours.
fn duplicate(name: &str) -> Fault {
    let known = tables().iter().flat_map(|it| it.iter()).find(|it| it.name == name);
    let named = known.map(|it| Fault::at(ErrorCode::ElementDuplicate, it.name));
    named.unwrap_or(Fault::of(ErrorCode::ElementDuplicate))
}

struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
