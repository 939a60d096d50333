//! A session as it is kept: nothing of it stands in clear but what a query needs.

use std::{fmt, time::Duration};

use scrip_seal::{Place, Purpose, Sealed, Secret};
use scrip_threeds::{
    code::{Device, MethodCompletion},
    request::DeviceInfo,
    session::{ThreeDsPhase, ThreeDsSession},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Error, Timestamp,
    audit::AuditRecord,
    id::{ApplicationId, CardNumberVersion, TenantId, ThreeDsSessionId, TokenId, TokenIntentId},
    idempotency::IdempotencyRecord,
    policy::Tenant,
    threeds::{CardReference, SchemeSupport, ThreeDsEventRecord, ThreeDsSessionCard},
    token::Containers,
};

/// A session's row. What is not sealed is bound to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreeDsSessionRecord {
    pub tenant: TenantId,
    pub id: ThreeDsSessionId,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    /// When the row goes, if it does: what was authenticated stays.
    pub deletes_at: Option<Timestamp>,
    /// Counts the updates.
    pub revision: i64,
    /// Found by it when the card changes.
    pub card: ThreeDsSessionCard,
    pub body: Sealed,
}

/// What commits when a session changes.
#[derive(Debug, Clone)]
pub struct ThreeDsSessionWrite {
    pub session: ThreeDsSessionRecord,
    /// What is to be told of it.
    pub events: Vec<ThreeDsEventRecord>,
    pub audit: AuditRecord,
    pub outcome: &'static str,
    /// The card whose number was opened for it, which has a record of its own.
    pub used_card: Option<CardReference>,
    pub idempotency: Option<IdempotencyRecord>,
}

/// How a browser shows a challenge, which the page at its end has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeMode {
    Iframe,
    Redirect,
}

/// What is sealed of a session. Never a card number.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreeDsSessionBody {
    pub state: ThreeDsSession,
    pub(crate) token: Option<String>,
    pub(crate) token_intent: Option<String>,
    /// Of the card, when the session was created. They decide who reads the session once the card is
    /// gone.
    pub(crate) containers: String,
    /// A keyed digest of the number for which the session was created.
    pub(crate) number_digest: String,
    /// Which writing of it, where the session was created for a token.
    pub(crate) number_version: Option<String>,
    /// The first is the card's own brand.
    pub schemes: Vec<SchemeSupport>,
    pub device: Device,
    pub device_info: DeviceInfo,
    pub challenge_mode: ChallengeMode,
    pub metadata: Option<Map<String, Value>>,
    /// In the address to which the result is posted.
    pub(crate) secret: String,
    pub(crate) modified: Option<(String, i64)>,
    /// What the `AReq` said of the method page.
    pub(crate) sent_method_completion: Option<MethodCompletion>,
}

impl ThreeDsSessionBody {
    /// # Errors
    /// Not as we wrote it.
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

    #[must_use]
    pub fn modified(&self) -> Option<(ApplicationId, Timestamp)> {
        let (by, unix_ms) = self.modified.as_ref()?;
        Some((ApplicationId::parse(by)?, Timestamp { unix_ms: *unix_ms }))
    }

    pub(crate) fn set_modified(&mut self, by: ApplicationId, at: Timestamp) {
        self.modified = Some((by.to_string(), at.unix_ms));
    }

    pub(crate) fn expires_at(&self) -> Timestamp {
        from_seconds(self.state.expires_at.0)
    }

    /// When nobody needs the row any more. What failed stays for a day, so that its client hears why
    /// there is no result.
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
        Ok(tenant.keys.seal(Purpose::Data, &place(record), &Secret::new(bytes)))
    }

    pub(crate) fn open(tenant: &Tenant, record: &ThreeDsSessionRecord) -> Result<Self, Error> {
        let secret = tenant.keys.open(Purpose::Data, &place(record), &record.body)?;
        serde_json::from_slice(secret.expose()).map_err(|_| corrupt_body_error())
    }
}

fn from_seconds(seconds: i64) -> Timestamp {
    Timestamp { unix_ms: seconds.saturating_mul(1000) }
}

fn corrupt_body_error() -> Error {
    Error::Internal("a session's body is not one of ours".into())
}

/// Every column beside the body is part of its place.
fn place(record: &ThreeDsSessionRecord) -> Place {
    let place = Place::new("session.body")
        .bytes(record.tenant.0.as_bytes())
        .bytes(record.id.0.as_bytes())
        .bytes(record.created_by.0.as_bytes())
        .number(record.created_at.unix_ms)
        .optional_number(record.deletes_at.map(|it| it.unix_ms))
        .number(record.revision);
    record.card.add_to_place(place)
}

/// It tells of a person, and has a secret.
impl fmt::Debug for ThreeDsSessionBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionBody")
    }
}
