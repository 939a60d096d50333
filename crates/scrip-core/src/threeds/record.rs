//! A session as it is kept: nothing of it stands in clear but what a query needs.

use std::{fmt, time::Duration};

use scrip_seal::{Place, Purpose, Sealed, Secret};
use scrip_threeds::{
    code::{Device, MethodCompletion},
    request::DeviceInfo,
    session::{Phase, Session},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Error, Timestamp,
    audit::AuditRecord,
    id::{ApplicationId, NumberVersion, SessionId, TenantId, TokenId, TokenIntentId},
    idempotency::AnswerRecord,
    policy::Tenant,
    threeds::{CardReference, EventRecord, Rail, SessionCard},
    token::Containers,
};

/// A session's row. What is not sealed is bound to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    pub tenant: TenantId,
    pub id: SessionId,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    /// When the row goes, if it does: what was authenticated stays.
    pub ends_at: Option<Timestamp>,
    /// Counts the updates.
    pub revision: i64,
    /// Found by it when the card changes.
    pub card: SessionCard,
    pub body: Sealed,
}

/// What commits when a session changes.
#[derive(Debug, Clone)]
pub struct SessionWrite {
    pub session: SessionRecord,
    /// What is to be told of it.
    pub events: Vec<EventRecord>,
    pub audit: AuditRecord,
    pub outcome: &'static str,
    /// The card whose number was opened for it, which has a record of its own.
    pub used: Option<CardReference>,
    pub answer: Option<AnswerRecord>,
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
pub struct SessionBody {
    pub state: Session,
    pub(crate) token: Option<String>,
    pub(crate) token_intent: Option<String>,
    /// Of the card, when the session was created. They decide who reads the session once the card is
    /// gone.
    pub(crate) containers: String,
    /// A keyed digest of the number for which the session was created.
    pub(crate) number: String,
    /// Which writing of it, where the session was created for a token.
    pub(crate) number_version: Option<String>,
    /// The first is the card's own brand.
    pub rails: Vec<Rail>,
    pub device: Device,
    pub device_info: DeviceInfo,
    pub challenge_mode: ChallengeMode,
    pub metadata: Option<Map<String, Value>>,
    /// In the address to which the result is posted.
    pub(crate) secret: String,
    pub(crate) modified: Option<(String, i64)>,
    /// What the `AReq` said of the method page.
    pub(crate) method_sent: Option<MethodCompletion>,
}

impl SessionBody {
    /// # Errors
    /// Not as we wrote it.
    pub fn card(&self) -> Result<CardReference, Error> {
        let token =
            self.token.as_deref().map(TokenId::parse).transpose().map_err(|_| not_ours())?;
        let intent = self.token_intent.as_deref().and_then(TokenIntentId::parse);
        let token = token.map(CardReference::Token);
        token.or(intent.map(CardReference::TokenIntent)).ok_or_else(not_ours)
    }

    pub(crate) fn containers(&self) -> Result<Containers, Error> {
        Containers::parse(self.containers.split(',')).map_err(|_| not_ours())
    }

    pub(crate) fn number_version(&self) -> Option<NumberVersion> {
        self.number_version.as_deref().and_then(NumberVersion::parse)
    }

    #[must_use]
    pub fn modified(&self) -> Option<(ApplicationId, Timestamp)> {
        let (by, unix_ms) = self.modified.as_ref()?;
        Some((ApplicationId::parse(by)?, Timestamp { unix_ms: *unix_ms }))
    }

    pub(crate) fn modify(&mut self, by: ApplicationId, at: Timestamp) {
        self.modified = Some((by.to_string(), at.unix_ms));
    }

    pub(crate) fn expires_at(&self) -> Timestamp {
        seconds(self.state.expires_at.0)
    }

    /// When nobody needs the row any more. What failed stays for a day, so that its client hears why
    /// there is no result.
    pub(crate) fn ends_at(&self) -> Option<Timestamp> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let expires_at = self.expires_at();
        match &self.state.phase {
            Phase::Created
            | Phase::MethodPending
            | Phase::MethodCompleted
            | Phase::MethodTimedOut
            | Phase::Expired => Some(expires_at),
            Phase::Authenticating { .. } | Phase::Failed { .. } => Some(expires_at.after(DAY)),
            Phase::Challenged { .. } | Phase::Decoupled { .. } | Phase::Authenticated { .. } => {
                None
            }
        }
    }

    pub(crate) fn seal(&self, tenant: &Tenant, record: &SessionRecord) -> Result<Sealed, Error> {
        let mut bytes = Vec::with_capacity(8 * 1024);
        serde_json::to_writer(&mut bytes, self).map_err(|_| not_ours())?;
        Ok(tenant.keys.seal(Purpose::Data, &place(record), &Secret::new(bytes)))
    }

    pub(crate) fn open(tenant: &Tenant, record: &SessionRecord) -> Result<Self, Error> {
        let secret = tenant.keys.open(Purpose::Data, &place(record), &record.body)?;
        serde_json::from_slice(secret.expose()).map_err(|_| not_ours())
    }
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp { unix_ms: seconds.saturating_mul(1000) }
}

fn not_ours() -> Error {
    Error::Internal("a session's body is not one of ours".into())
}

/// Every column beside the body is part of its place.
fn place(record: &SessionRecord) -> Place {
    let place = Place::new("session.body")
        .bytes(record.tenant.0.as_bytes())
        .bytes(record.id.0.as_bytes())
        .bytes(record.created_by.0.as_bytes())
        .number(record.created_at.unix_ms)
        .optional_number(record.ends_at.map(|it| it.unix_ms))
        .number(record.revision);
    record.card.bind(place)
}

/// It tells of a person, and has a secret.
impl fmt::Debug for SessionBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionBody")
    }
}
