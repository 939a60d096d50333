//! Tokens as a request asks for them and as an answer shows them.

pub mod attribute_path;
pub mod body;
pub mod container;
pub mod container_range;
pub mod cvc;
pub mod disclosure;
pub mod expression;
pub mod intent;
pub mod plaintext;
pub mod record;
pub mod reveal;
pub mod token_type;
pub mod usage;
pub mod write;

pub use self::{
    attribute_path::AttributePath,
    body::{TokenBody, WithheldDigests},
    container::{Container, Containers},
    container_range::{ContainerRange, ContainerRanges},
    cvc::{Cvc, CvcRecord},
    expression::{provenance::ExpressionProvenance, work_meter::WorkMeter},
    intent::{
        IntentAuthentication, NewTokenIntent, StoredTokenIntent, TokenIntentRecord, TokenIntentView,
    },
    plaintext::Plaintext,
    record::{StoredToken, TokenModification, TokenRecord},
    token_type::TokenType,
    usage::{TenantUsage, TokenTypeUsage},
    write::{
        BatchOutcome, BuildIdempotencyRecord, CvcChange, Deduplicate, DeleteToken, InsertToken,
        TokenBatch, TokenWrite, UpdateToken, WriteConflict, WriteOutcome,
    },
};

use std::{borrow::Cow, collections::BTreeMap};

use scrip_seal::Fingerprint;
use serde_json::Value;

use self::cvc::with_cvc;
use crate::{
    card::{CardDetails, bank::BankDetails},
    id::{ApplicationId, TenantId, TokenId},
    policy::{DeduplicationBehavior, Transform},
    time::Timestamp,
};

/// A create request after parsing: every attribute is of its type.
#[derive(Debug)]
pub struct NewToken {
    /// A value or an expression.
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
    /// One of which nothing more is said.
    #[must_use]
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

/// Where a new token's data comes from.
#[derive(Debug)]
pub enum TokenSource {
    Data { token_type: TokenType, data: Plaintext },
    Intent(String),
}

/// An update request after parsing. What is absent stays; an inner nothing takes the attribute back
/// to what the type assumes.
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

/// What one caller may see of one token.
#[derive(Debug)]
pub struct TokenView {
    pub id: TokenId,
    pub tenant_id: TenantId,
    pub token_type: TokenType,
    pub fingerprint: Option<Fingerprint>,
    pub containers: Containers,
    /// Of a view without detail, where the caller set it.
    pub expires_at: Option<Timestamp>,
    /// Nothing for a caller that may not read the token at all.
    pub detail: Option<TokenDetail>,
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
}

/// The data, as far as the transform lets it be seen.
#[derive(Debug)]
pub struct VisibleData {
    pub transform: Transform,
    pub data: Option<Plaintext>,
    /// Apart from the data, so that what is remembered of an answer cannot hold it.
    pub cvc: Option<Cvc>,
    /// What a weaker caller would have seen. Only made to be remembered, for a later replay at a
    /// weaker right.
    pub masked: Option<Plaintext>,
}

impl VisibleData {
    /// The data as a caller sees it: with the code, where that is shown.
    #[must_use]
    pub fn into_data(self) -> Option<Plaintext> {
        Some(with_cvc(self.data?, self.cvc.as_ref()))
    }
}

/// The outcome of creating or updating a token.
#[derive(Debug)]
pub struct WrittenToken {
    pub token: TokenView,
    /// Set when the token was there already, with what became of it.
    pub deduplicated: Option<DeduplicationBehavior>,
}
