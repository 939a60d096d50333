//! The transaction of a message.

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
    pub fn for_version(version: Version) -> Self {
        Self { version, channel: None, category: None, known_extensions: KnownExtensions::Ids(&[]) }
    }

    #[must_use]
    pub fn with_channel(self, channel: DeviceChannel, category: AuthenticationCategory) -> Self {
        Self { channel: Some(channel), category: Some(category), ..self }
    }
}
