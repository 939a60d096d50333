//! The messages of EMV 3DS 2.1.0 and 2.2.0, each one table of its elements.
//!
//! What is unknown is passed over, as EMV wants; what is known is checked whole before anything is
//! believed. A refusal names elements and a code, never a value.

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

/// What is known of a transaction before its message is read. `AReq` tells all of it itself; an
/// answer is read in the light of its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionContext {
    pub version: Version,
    pub channel: Option<DeviceChannel>,
    pub category: Option<AuthenticationCategory>,
    pub known_extensions: KnownExtensions,
}

/// Which extensions the reader understands, by their ids: any other must not be critical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownExtensions {
    Ids(&'static [&'static str]),
    /// For who only writes or hands on: understanding is up to the one who reads.
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

/// The elements of every message and of every object within one.
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
