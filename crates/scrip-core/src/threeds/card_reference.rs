//! The token or intent with which a 3DS session was created.

use crate::{
    threeds::ThreeDsSessionCard,
    types::{
        Operation,
        id::{TokenId, TokenIntentId},
    },
};

/// The token or intent with which a 3DS session was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardReference {
    Token(TokenId),
    TokenIntent(TokenIntentId),
}

impl CardReference {
    /// The request attribute for this kind of card.
    pub fn attribute(&self) -> &'static str {
        match self {
            Self::Token(_) => "token_id",
            Self::TokenIntent(_) => "token_intent_id",
        }
    }

    /// The card columns of a new session.
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

    /// The id of the token or of the intent, as text.
    pub(crate) fn ids(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Token(id) => (Some(id.as_str().to_owned()), None),
            Self::TokenIntent(id) => (None, Some(id.to_string())),
        }
    }

    /// The operation and the entity in the audit record of a use.
    pub fn audit_subject(&self) -> (Operation, String) {
        match self {
            Self::Token(id) => (Operation::UseToken, id.as_str().to_owned()),
            Self::TokenIntent(id) => (Operation::UseTokenIntent, id.to_string()),
        }
    }
}
