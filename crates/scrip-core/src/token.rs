//! Tokens: parsed requests, stored records, and views for responses.

pub mod body;
pub mod collected_data;
pub mod data_origin;
pub mod dropped_attributes;
pub mod encrypted_data;
pub mod intent;
pub mod record;

pub use self::{
    body::{Cvc, CvcRecord, StoredToken, TokenBody, WithheldOutputs},
    collected_data::{CollectedData, DataPlace},
    dropped_attributes::DroppedAttributes,
    encrypted_data::EncryptedData,
    intent::{
        IntentAuthentication, IntentData, NewTokenIntent, StoredTokenIntent, TokenIntentRecord,
        TokenIntentView,
    },
    record::{ExpressionProvenance, TokenModification, TokenRecord},
};

pub(crate) use self::data_origin::{DataOrigin, SourceIntent};

use std::{borrow::Cow, collections::BTreeMap};

use scrip_seal::Fingerprint;
use serde_json::Value;

use crate::{
    Error, Timestamp,
    card::{CardDetails, TokenType, bank::BankDetails},
    policy::DeduplicationBehavior,
    token::body::with_cvc,
    types::{
        Containers, Permission, Plaintext, Transform,
        id::{ApplicationId, TenantId, TokenId},
    },
};

/// A parsed request that creates a token.
#[derive(Debug)]
pub struct NewToken {
    /// A literal id or an expression.
    pub id: Option<String>,
    pub source: TokenSource,
    pub mask: Option<Value>,
    pub containers: Option<Containers>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub search_indexes: Option<Vec<String>>,
    pub fingerprint_expression: Option<String>,
    pub deduplicate: Option<bool>,
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// A new token with only type and data.
    pub fn with_data(token_type: TokenType, data: Plaintext) -> Self {
        Self {
            id: None,
            source: TokenSource::Data { token_type, data },
            mask: None,
            containers: None,
            metadata: None,
            search_indexes: None,
            fingerprint_expression: None,
            deduplicate: None,
            expires_at: None,
        }
    }
}

/// The source of a new token's data.
#[derive(Debug)]
pub enum TokenSource {
    Data {
        token_type: TokenType,
        data: Plaintext,
    },
    Intent(String),
    /// The client encrypted the data, so the caller need not know it.
    Encrypted(EncryptedData),
    /// A proxied call stores the data, and its sender need not know it.
    Collected(CollectedData),
}

/// A parsed update request. An absent attribute (outer `None`) does not change. An inner `None`
/// resets the attribute to the default of the token type.
#[derive(Debug, Default)]
pub struct TokenPatch {
    pub data: Option<Plaintext>,
    pub mask: Option<Value>,
    pub metadata: Option<Value>,
    pub containers: Option<Option<Containers>>,
    pub search_indexes: Option<Option<Vec<String>>>,
    pub fingerprint_expression: Option<Option<String>>,
    pub deduplicate: Option<bool>,
    pub expires_at: Option<Option<Timestamp>>,
}

/// The part of a token that one caller may see.
#[derive(Debug)]
pub struct TokenView {
    pub id: TokenId,
    pub tenant_id: TenantId,
    pub token_type: TokenType,
    pub fingerprint: Option<Fingerprint>,
    pub containers: Containers,
    /// Set only in a view without detail, after an update by the caller.
    pub expires_at: Option<Timestamp>,
    /// `None` for a caller without any right to read the token.
    pub detail: Option<TokenDetail>,
    /// The permissions that `detail` needs.
    pub(crate) shown_by: ViewPermissions,
}

/// The permissions that the details of a view need. The function that builds the view names them, and
/// a replay of the view needs them again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ViewPermissions {
    /// Their transforms limit the data.
    pub(crate) limiting: Vec<Permission>,
    /// The view needs them with any transform.
    pub(crate) required: Vec<Permission>,
}

#[derive(Debug)]
pub struct TokenDetail {
    pub visible: VisibleData,
    pub mask: Option<Cow<'static, Value>>,
    pub card: Option<CardDetails>,
    pub network_token: Option<CardDetails>,
    pub bank: Option<BankDetails>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub search_indexes: Option<Cow<'static, [String]>>,
    pub fingerprint_expression: Option<Cow<'static, str>>,
    pub expires_at: Option<Timestamp>,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    pub modified: Option<TokenModification>,
    /// Only in the response to the create that sent the data.
    pub dropped_attributes: DroppedAttributes,
}

impl TokenView {
    /// The transform of the view, which can be weaker than that of the permit.
    pub(crate) fn limit_transform(&self, permitted: Transform) -> Transform {
        self.detail.as_ref().map_or(permitted, |it| it.visible.transform.min(permitted))
    }
}

/// The data that the transform allows the caller to see.
#[derive(Debug)]
pub struct VisibleData {
    pub transform: Transform,
    pub data: Option<Plaintext>,
    /// Separate from the data, so that a stored response cannot contain it.
    pub cvc: Option<Cvc>,
    /// The masked data, for a replay to a caller with a weaker right. Set only in a stored
    /// response.
    pub masked: Option<Plaintext>,
}

impl VisibleData {
    /// The data for the response, with the CVC if the caller may see it.
    pub fn into_data(self) -> Option<Plaintext> {
        Some(with_cvc(self.data?, self.cvc.as_ref()))
    }
}

/// The result of creating or updating a token.
#[derive(Debug)]
pub struct WrittenToken {
    pub token: TokenView,
    /// Set when the token already existed: whether it was read or updated.
    pub deduplicated: Option<DeduplicationBehavior>,
}

/// What the guessing budget counts of the data of a new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedPart {
    Everything,
    /// The number that the type names. A text of an intent has none; it was counted when the intent was
    /// created.
    OwnNumber,
    /// A text that was not counted before: it must not be compared.
    Nothing,
}

impl CountedPart {
    pub(crate) fn is_any(self) -> bool {
        self != Self::Nothing
    }
}

/// Whether a patch contains a card number, with any value.
pub(crate) fn patch_has_card_number(token_type: TokenType, patch: &TokenPatch) -> bool {
    let data = patch.data.as_ref().map(Plaintext::expose);
    let has_number = data.is_some_and(|it| it.get("number").is_some() || !it.is_object());
    has_number && token_type == TokenType::Card
}

pub(crate) fn number_in_use_error() -> Error {
    let reason = "a 3-D Secure session was created for the number of this card";
    Error::Conflict { reason }
}
