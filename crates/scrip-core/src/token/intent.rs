//! Token intents: data that can be converted to a token, and that expires otherwise.

use scrip_seal::{Fingerprint, Place, Purpose, Sealed, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error, Timestamp,
    card::{CardDetails, TokenType, bank::BankDetails},
    policy::Tenant,
    token::{CvcRecord, EncryptedData, body::is_false},
    types::{
        Containers, Plaintext,
        id::{ApplicationId, TenantId, TokenIntentId},
    },
    work_meter::{BodyWork, WorkMeter},
};

/// A parsed request that creates an intent.
#[derive(Debug)]
pub struct NewTokenIntent {
    pub token_type: TokenType,
    pub data: IntentData,
    pub containers: Option<Containers>,
    pub authentication: Option<IntentAuthentication>,
}

/// The data of a new intent.
#[derive(Debug)]
pub enum IntentData {
    Clear(Plaintext),
    /// The client encrypted the data, so the caller need not know it.
    Encrypted(EncryptedData),
}

impl From<Plaintext> for IntentData {
    fn from(data: Plaintext) -> Self {
        Self::Clear(data)
    }
}

/// Proof that the holder of a network token was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentAuthentication {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threeds_cryptogram: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eci_indicator: Option<String>,
}

/// The stored row of an intent. The clear columns are bound to the sealed body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenIntentRecord {
    pub id: TokenIntentId,
    pub token_type: TokenType,
    pub fingerprint: Option<Fingerprint>,
    /// Every use of the intent is authorized on these containers.
    pub containers: Containers,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub body: Sealed,
}

impl TokenIntentRecord {
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTokenIntent {
    pub record: TokenIntentRecord,
    pub cvc: Option<CvcRecord>,
}

/// The sealed part of an intent. It never contains the CVC.
#[derive(Debug, Deserialize)]
pub(crate) struct IntentBody {
    pub(crate) data: Plaintext,
    pub(crate) authentication: Option<IntentAuthentication>,
    /// As in [`TokenBody`](crate::token::TokenBody).
    #[serde(default)]
    pub(crate) is_marked: bool,
    /// Whether a payer typed the data into a hosted field.
    #[serde(default)]
    pub(crate) is_typed: bool,
}

#[derive(Serialize)]
struct IntentBodyRef<'a> {
    data: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<&'a IntentAuthentication>,
    #[serde(skip_serializing_if = "is_false")]
    is_marked: bool,
    #[serde(skip_serializing_if = "is_false")]
    is_typed: bool,
}

impl IntentBody {
    pub(crate) fn seal(
        &self,
        tenant: &Tenant,
        record: &TokenIntentRecord,
    ) -> Result<Sealed, Error> {
        let body_ref = IntentBodyRef {
            data: self.data.expose(),
            authentication: self.authentication.as_ref(),
            is_marked: self.is_marked,
            is_typed: self.is_typed,
        };
        // Reserve space for most bodies: a buffer that grows leaves copies of itself in memory.
        let mut bytes = Vec::with_capacity(1024);
        serde_json::to_writer(&mut bytes, &body_ref).map_err(|_| Error::Internal("body".into()))?;
        Ok(tenant.keys.seal(Purpose::Data, &body_place(tenant.id, record), &Secret::new(bytes)))
    }

    /// Opens the body: a large one outside of the async workers. No other function opens it.
    /// Errors: the body cannot be opened, or too many other steps are running.
    pub(crate) fn open(
        work: &WorkMeter,
        tenant: &Tenant,
        record: &TokenIntentRecord,
    ) -> Result<Self, Error> {
        let body_work = BodyWork::for_bytes(record.body.as_bytes().len());
        work.run_opening(body_work, || Self::open_with(tenant, record))?
    }

    fn open_with(tenant: &Tenant, record: &TokenIntentRecord) -> Result<Self, Error> {
        let secret =
            tenant.keys.open(Purpose::Data, &body_place(tenant.id, record), &record.body)?;
        serde_json::from_slice(secret.expose())
            .map_err(|_| Error::Internal("the body of an intent cannot be parsed".into()))
    }
}

/// The place covers every clear column.
pub(crate) fn body_place(tenant: TenantId, record: &TokenIntentRecord) -> Place {
    let place = Place::new("intent.body")
        .bytes(tenant.0.as_bytes())
        .bytes(record.id.0.as_bytes())
        .text(record.token_type.as_str())
        .optional_bytes(record.fingerprint.as_ref().map(|it| it.0.as_slice()))
        .bytes(record.created_by.0.as_bytes())
        .number(record.created_at.unix_ms)
        .number(record.expires_at.unix_ms);
    record.containers.iter().fold(place, |place, it| place.text(it.as_str()))
}

/// The place of an intent's CVC.
pub(crate) fn cvc_place(tenant: TenantId, intent: TokenIntentId, expires_at: Timestamp) -> Place {
    Place::new("intent.cvc")
        .bytes(tenant.0.as_bytes())
        .bytes(intent.0.as_bytes())
        .number(expires_at.unix_ms)
}

/// The view of an intent. It never contains the data.
#[derive(Debug)]
pub struct TokenIntentView {
    pub id: TokenIntentId,
    pub tenant_id: TenantId,
    pub token_type: TokenType,
    pub card: Option<CardDetails>,
    pub network_token: Option<CardDetails>,
    pub bank: Option<BankDetails>,
    pub authentication: Option<IntentAuthentication>,
    pub fingerprint: Option<Fingerprint>,
    pub containers: Containers,
    pub expires_at: Timestamp,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
}
