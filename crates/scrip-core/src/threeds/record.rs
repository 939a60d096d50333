//! The stored 3DS session. Only the columns that queries need are in clear.

use std::time::Duration;

use scrip_seal::{Place, Purpose, Sealed, Secret};
use scrip_threeds::{
    authentication::Authentication,
    code::{AcsInformation, Device, MethodCompletion, Scheme},
    format::{Url, Version, VersionNumber},
    request::DeviceInfo,
    session::{ThreeDsPhase, ThreeDsSession},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Error, Timestamp,
    audit::AuditRecord,
    events::NewDelivery,
    idempotency::IdempotencyRecord,
    policy::Tenant,
    threeds::ThreeDsSessionCard,
    types::{
        Containers, Operation,
        id::{
            ApplicationId, CardNumberVersion, TenantId, ThreeDsSessionId, TokenId, TokenIntentId,
        },
    },
};

/// The stored row of a session. The clear columns are bound to the sealed body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreeDsSessionRecord {
    pub tenant: TenantId,
    pub id: ThreeDsSessionId,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    /// When the row is deleted; `None` for an authenticated session, which is not deleted.
    pub deletes_at: Option<Timestamp>,
    /// Incremented by every update.
    pub revision: i64,
    /// In clear, so that a change of the card finds its sessions.
    pub card: ThreeDsSessionCard,
    pub body: Sealed,
}

/// Everything that is committed with a change of a session.
#[derive(Debug, Clone)]
pub struct ThreeDsSessionWrite {
    pub session: ThreeDsSessionRecord,
    /// The deliveries of the events of the change.
    pub deliveries: Vec<NewDelivery>,
    pub audit: AuditRecord,
    pub outcome: &'static str,
    /// The card, if its number was opened. Its use has its own audit record.
    pub used_card: Option<CardReference>,
    pub idempotency: Option<IdempotencyRecord>,
}

/// The way in which the browser shows a challenge. The page after the challenge depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeMode {
    Iframe,
    Redirect,
}

/// The sealed part of a session. It never contains a card number.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreeDsSessionBody {
    pub state: ThreeDsSession,
    pub(crate) token: Option<String>,
    pub(crate) token_intent: Option<String>,
    /// The containers of the card when the session was created. They decide who may read the
    /// session after the card is deleted.
    pub(crate) containers: String,
    /// A keyed digest of the card number at creation.
    pub(crate) number_digest: String,
    /// The version of the number, for a session of a token.
    pub(crate) number_version: Option<String>,
    /// The supported schemes. The first is the own brand of the card.
    pub schemes: Vec<SchemeSupport>,
    pub device: Device,
    pub device_info: DeviceInfo,
    pub challenge_mode: ChallengeMode,
    pub metadata: Option<Map<String, Value>>,
    /// Part of the URL to which the result is posted.
    pub(crate) secret: String,
    pub(crate) modified: Option<(String, i64)>,
    /// The method completion indicator in the `AReq`.
    pub(crate) sent_method_completion: Option<MethodCompletion>,
}

impl ThreeDsSessionBody {
    /// Errors: the body is not valid.
    pub fn card(&self) -> Result<CardReference, Error> {
        let token = self
            .token
            .as_deref()
            .map(TokenId::parse)
            .transpose()
            .map_err(|_| corrupt_body_error())?;
        let intent = self.token_intent.as_deref().and_then(TokenIntentId::parse);
        let token = token.map(CardReference::Token);
        token.or(intent.map(CardReference::TokenIntent)).ok_or_else(corrupt_body_error)
    }

    pub(crate) fn containers(&self) -> Result<Containers, Error> {
        Containers::parse(self.containers.split(',')).map_err(|_| corrupt_body_error())
    }

    pub(crate) fn number_version(&self) -> Option<CardNumberVersion> {
        self.number_version.as_deref().and_then(CardNumberVersion::parse)
    }

    pub fn modified(&self) -> Option<(ApplicationId, Timestamp)> {
        let (application, unix_ms) = self.modified.as_ref()?;
        Some((ApplicationId::parse(application)?, Timestamp { unix_ms: *unix_ms }))
    }

    pub(crate) fn set_modified(&mut self, application: ApplicationId, at: Timestamp) {
        self.modified = Some((application.to_string(), at.unix_ms));
    }

    pub(crate) fn expires_at(&self) -> Timestamp {
        from_seconds(self.state.expires_at.0)
    }

    /// When the row can be deleted. A failed session stays for a day, so that its client can read
    /// the reason.
    pub(crate) fn deletes_at(&self) -> Option<Timestamp> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let expires_at = self.expires_at();
        match &self.state.phase {
            ThreeDsPhase::Created
            | ThreeDsPhase::MethodPending
            | ThreeDsPhase::MethodCompleted
            | ThreeDsPhase::MethodTimedOut
            | ThreeDsPhase::Expired => Some(expires_at),
            ThreeDsPhase::Authenticating { .. } | ThreeDsPhase::Failed { .. } => {
                Some(expires_at.plus(DAY))
            }
            ThreeDsPhase::Challenged { .. }
            | ThreeDsPhase::Decoupled { .. }
            | ThreeDsPhase::Authenticated { .. } => None,
        }
    }

    pub(crate) fn seal(
        &self,
        tenant: &Tenant,
        record: &ThreeDsSessionRecord,
    ) -> Result<Sealed, Error> {
        let mut bytes = Vec::with_capacity(8 * 1024);
        serde_json::to_writer(&mut bytes, self).map_err(|_| corrupt_body_error())?;
        Ok(tenant.keys.seal(Purpose::Data, &body_place(record), &Secret::new(bytes)))
    }

    pub(crate) fn open(tenant: &Tenant, record: &ThreeDsSessionRecord) -> Result<Self, Error> {
        let secret = tenant.keys.open(Purpose::Data, &body_place(record), &record.body)?;
        serde_json::from_slice(secret.expose()).map_err(|_| corrupt_body_error())
    }
}

fn from_seconds(seconds: i64) -> Timestamp {
    Timestamp { unix_ms: seconds.saturating_mul(1000) }
}

fn corrupt_body_error() -> Error {
    Error::Internal("the body of a 3DS session cannot be parsed".into())
}

/// The associated data of a session body: every clear column.
pub(crate) fn body_place(record: &ThreeDsSessionRecord) -> Place {
    let place = Place::new("session.body")
        .bytes(record.tenant.0.as_bytes())
        .bytes(record.id.0.as_bytes())
        .bytes(record.created_by.0.as_bytes())
        .number(record.created_at.unix_ms)
        .optional_number(record.deletes_at.map(|it| it.unix_ms))
        .number(record.revision);
    record.card.add_to_place(place)
}

// `Debug` prints no content: the body contains personal data and a secret.
hide_in_debug! { ThreeDsSessionBody }

/// A whole session. The API crate decides which attributes a response contains.
#[derive(Debug, Clone)]
pub struct ThreeDsSessionView {
    pub id: ThreeDsSessionId,
    pub tenant_id: TenantId,
    pub card: CardReference,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    /// Without effect after authentication: the session then does not expire.
    pub expires_at: Timestamp,
    /// The URL to which the browser reports that the method page has run.
    pub method_notification_url: String,
    /// `None` while it is unknown.
    pub method_completion: Option<MethodCompletion>,
    pub body: ThreeDsSessionBody,
}

/// The outcome of one session.
#[derive(Debug, Clone)]
pub struct AuthenticationView {
    pub session_id: ThreeDsSessionId,
    pub card: CardReference,
    pub authentication: Authentication,
}

impl ThreeDsSessionView {
    pub fn authentication(&self) -> Option<AuthenticationView> {
        let authentication = self.body.state.authentication()?.clone();
        Some(AuthenticationView { session_id: self.id, card: self.card.clone(), authentication })
    }
}

/// A scheme that can authenticate a card, and its protocol versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeSupport {
    pub scheme: Scheme,
    pub recommended: Version,
    pub available: Vec<Version>,
    /// The earliest and the latest version.
    pub acs: (VersionNumber, VersionNumber),
    pub ds: (VersionNumber, VersionNumber),
    pub acs_information: Vec<AcsInformation>,
    pub method_url: Option<Url<256>>,
}

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
