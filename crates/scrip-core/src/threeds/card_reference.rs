//! What a session was created with.

use crate::{
    audit::Operation,
    id::{TokenId, TokenIntentId},
    threeds::ThreeDsSessionCard,
};

/// What a session was created with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardReference {
    Token(TokenId),
    TokenIntent(TokenIntentId),
}

impl CardReference {
    /// The attribute by which a client names it.
    #[must_use]
    pub fn attribute(&self) -> &'static str {
        match self {
            Self::Token(_) => "token_id",
            Self::TokenIntent(_) => "token_intent_id",
        }
    }

    /// As the row of a new session names it.
    pub(crate) fn to_session_card(&self) -> ThreeDsSessionCard {
        match self {
            Self::Token(id) => ThreeDsSessionCard::Token(id.clone()),
            Self::TokenIntent(id) => ThreeDsSessionCard::Intent { id: *id, conversion: None },
        }
    }

    pub(crate) fn token(&self) -> Option<&TokenId> {
        match self {
            Self::Token(id) => Some(id),
            Self::TokenIntent(_) => None,
        }
    }

    /// The id of a token, or that of an intent, as texts.
    pub(crate) fn ids(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Token(id) => (Some(id.as_str().to_owned()), None),
            Self::TokenIntent(id) => (None, Some(id.to_string())),
        }
    }

    /// How its use is recorded, and of what.
    #[must_use]
    pub fn audit_subject(&self) -> (Operation, String) {
        match self {
            Self::Token(id) => (Operation::UseToken, id.as_str().to_owned()),
            Self::TokenIntent(id) => (Operation::UseTokenIntent, id.to_string()),
        }
    }
}
