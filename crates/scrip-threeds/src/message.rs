//! The messages of EMV 3DS 2.1.0 and 2.2.0. One table defines the elements of each message.
//!
//! Unknown elements are ignored, as EMV requires. All known elements are checked before a message
//! is used. A fault names elements and a code, never a value.

mod account;
mod areq;
mod ares;
mod challenge;
mod document;
mod erro;
mod extension;
mod preparation;
mod record;
mod results;
#[cfg(test)]
mod tests;
mod wire_form;

pub use account::{
    AccountInfo, AuthenticationInfo, DeviceRendering, EphemeralKey, KeyCurve, KeyKind,
    MerchantRisk, Phone, PriorAuthenticationInfo,
};
pub use areq::AReq;
pub use ares::{ARes, AcsRendering};
pub use challenge::{CHOICES_MAX, CReq, CRes, Image, SelectInfo};
pub use document::{Document, ErroSubject, parse_message};
pub use erro::{Erro, FailureKind};
pub use extension::{DATA_CHARS_MAX, EXTENSIONS_MAX, Extension, Extensions};
pub use preparation::{CardRange, PReq, PRes, RANGES_MAX};
pub use results::{RReq, RRes};
pub use wire_form::{MESSAGE_BYTES_MAX, Message, MessageType, RANGES_BYTES_MAX};

pub use crate::format::{KnownExtensions, TransactionContext};

pub(crate) use record::presence::{ElementPresence, MessageElements};
pub(crate) use wire_form::read_message;
