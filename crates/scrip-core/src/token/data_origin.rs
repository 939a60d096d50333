//! Where the data of a new token comes from.

use crate::{
    Timestamp,
    types::{
        Containers,
        id::{ApplicationId, TokenIntentId},
    },
};

/// Who knows the data.
pub(crate) enum DataOrigin {
    /// The caller sent it in clear.
    Request,
    /// The conversion deletes the intent.
    Intent(SourceIntent),
    /// A client encrypted it. The caller need not be this client.
    Encrypted,
    /// A proxied call stores it, and the sender of the call may not read it. The token shows no
    /// details of it without a reveal right.
    Hidden,
}

impl DataOrigin {
    /// Whether the caller sent the data in clear.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self, Self::Request)
    }

    /// Whether the token shows no details of the data without a reveal right.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self, Self::Hidden)
    }

    pub(crate) fn into_intent(self) -> Option<SourceIntent> {
        match self {
            Self::Intent(intent) => Some(intent),
            Self::Request | Self::Encrypted | Self::Hidden => None,
        }
    }
}

/// The properties of an intent that a conversion needs.
pub(crate) struct SourceIntent {
    pub(crate) id: TokenIntentId,
    pub(crate) containers: Containers,
    pub(crate) created_by: ApplicationId,
    pub(crate) expires_at: Timestamp,
    /// The numbers of the intent were counted, and no budget was exhausted: it has a fingerprint.
    pub(crate) is_counted: bool,
}
