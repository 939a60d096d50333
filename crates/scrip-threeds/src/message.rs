//! The messages of EMV 3DS 2.1.0 and 2.2.0. One table defines the elements of each message.
//!
//! Unknown elements are ignored, as EMV requires. All known elements are checked before a message
//! is used. A fault names elements and a code, never a value.

mod account;
mod areq;
mod ares;
mod challenge;
mod challenge_app;
mod device;
mod document;
mod erro;
mod extension;
mod preparation;
mod presence;
mod record;
mod results;
mod risk;

#[cfg(test)]
mod tests;

pub use account::{AccountInfo, AuthenticationInfo, Phone, PriorAuthenticationInfo};
pub use areq::AReq;
pub use ares::{ARes, AcsRendering};
pub use challenge::{CReq, CRes};
pub use challenge_app::{CHOICES_MAX, Image, SelectInfo};
pub use device::{DeviceRendering, EphemeralKey, KeyCurve, KeyKind};
pub use document::{Document, MESSAGE_BYTES_MAX, Message, MessageType, RANGES_BYTES_MAX};
pub use erro::{Erro, ErroSubject, FailureKind};
pub use extension::{DATA_CHARS_MAX, EXTENSIONS_MAX, Extension, Extensions};
pub use preparation::{CardRange, PReq, PRes, RANGES_MAX};
pub use results::{RReq, RRes};
pub use risk::MerchantRisk;

pub(crate) use document::read_message;
pub(crate) use presence::{ElementPresence, MessageElements};

use self::record::ElementTable;
use crate::{
    code::{AuthenticationCategory, DeviceChannel},
    format::Version,
};

/// Properties of a transaction that are known before its message is read. An `AReq` contains all of
/// them; a response is checked in the context of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionContext {
    pub version: Version,
    pub channel: Option<DeviceChannel>,
    pub category: Option<AuthenticationCategory>,
    pub known_extensions: KnownExtensions,
}

/// The ids of the extensions that the reader understands. Other extensions must not be critical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownExtensions {
    Ids(&'static [&'static str]),
    /// For components that only write or forward messages: the final reader checks the extensions.
    All,
}

impl KnownExtensions {
    pub(crate) fn contains(self, id: &str) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(&id),
            Self::All => true,
        }
    }
}

impl TransactionContext {
    #[must_use]
    pub fn for_version(version: Version) -> Self {
        Self { version, channel: None, category: None, known_extensions: KnownExtensions::Ids(&[]) }
    }

    #[must_use]
    pub fn with_channel(self, channel: DeviceChannel, category: AuthenticationCategory) -> Self {
        Self { channel: Some(channel), category: Some(category), ..self }
    }
}

/// The elements of all messages and of all objects in messages.
fn element_tables() -> [&'static [record::ElementDefinition]; 20] {
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
