//! Create Session.

use std::time::Duration;

use scrip_seal::Sealed;
use scrip_threeds::{
    code::{Device, DeviceChannel, ThreeDsSessionType},
    format::TransId,
    request::DeviceInfo,
    session::{StateMachineEffect, ThreeDsSession, WebhookEventType},
};
use scrip_types::hex::encode_hex;
use serde_json::{Map, Value};

use crate::{
    Error, FieldError, Vault,
    idempotency::{ResponseRecorder, response::seal_permitted_response},
    policy::Caller,
    threeds::{
        CardReference, ChallengeMode, ThreeDsSessionBody, ThreeDsSessionRecord, ThreeDsSessionView,
    },
    threeds_session::{
        LoadedSession, SessionChange, check_threeds_enabled, find_card, find_supported_schemes,
        to_moment,
    },
    types::{
        Operation, Permission,
        id::{ThreeDsSessionId, random_uuid},
    },
};

/// The lifetime of a session for a card without an expiry.
const SESSION_RETENTION: Duration = Duration::from_secs(60 * 60);
/// The maximum lifetime of a session without authentication, also if its card expires later.
const SESSION_RETENTION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A parsed request that creates a session.
#[derive(Debug)]
pub struct NewThreeDsSession {
    pub card: CardReference,
    pub kind: ThreeDsSessionType,
    pub device: Device,
    /// For a browser, also the device information that the server observed.
    pub device_info: DeviceInfo,
    pub challenge_mode: ChallengeMode,
    pub metadata: Option<Map<String, Value>>,
}

/// Creates a session for a card.
/// Errors: there is no such card, no scheme supports it, or 3-D Secure is disabled for the tenant.
pub async fn create_threeds_session(
    vault: &Vault,
    caller: &Caller,
    new: NewThreeDsSession,
    recorder: Option<ResponseRecorder<ThreeDsSessionView>>,
) -> Result<ThreeDsSessionView, Error> {
    const REQUIRED_PERMISSION: Permission = Permission::ThreeDsSessionCreate;
    let (tenant, now) = (caller.tenant(), vault.clock.now());
    check_threeds_enabled(tenant)?;
    let card = find_card(vault, caller, REQUIRED_PERMISSION, &new.card).await?;
    let card =
        card.ok_or_else(|| FieldError::new(new.card.attribute(), "is not a card of this tenant"))?;
    let schemes = find_supported_schemes(vault, tenant.kind, card.number.as_ref())?;

    let id = ThreeDsSessionId(random_uuid(vault.fill_random));
    let expires_at = card.expires_at.unwrap_or_else(|| now.plus(SESSION_RETENTION));
    let expires_at = expires_at.min(now.plus(SESSION_RETENTION_MAX));
    let trans_id = TransId::parse(&id.to_string()).map_err(|_| Error::Internal("id".into()))?;
    let channel = DeviceChannel::for_session(new.kind, new.device);
    let has_method = schemes.first().is_some_and(|it| it.method_url.is_some());
    let state = ThreeDsSession::new(trans_id, new.kind, channel, to_moment(expires_at));
    let state = if has_method { state.with_method() } else { state };
    let (token, token_intent) = new.card.ids();
    let body = ThreeDsSessionBody {
        state,
        token,
        token_intent,
        containers: card.permit.containers().to_text(),
        number_digest: card.number_digest,
        number_version: card.number_version.map(|it| it.to_string()),
        schemes,
        device: new.device,
        device_info: new.device_info,
        challenge_mode: new.challenge_mode,
        metadata: new.metadata,
        secret: random_secret(vault.fill_random),
        modified: None,
        sent_method_completion: None,
    };
    let record = ThreeDsSessionRecord {
        tenant: tenant.id,
        id,
        created_by: caller.application(),
        created_at: now,
        deletes_at: None,
        revision: 1,
        card: new.card.to_session_card(),
        body: Sealed::from_stored(Vec::new()),
    };
    let mut session = LoadedSession { record, body };
    let view = ThreeDsSessionView::new(vault, &session)?;
    let idempotency = recorder.as_ref().map(|it| {
        seal_permitted_response(&card.permit, it.claim.digests, (it.render)(&view), None, now)
    });
    let effects = [StateMachineEffect::Emit { event: WebhookEventType::Created, status: None }];
    let change = SessionChange::new(caller, Operation::CreateThreeDsSession, "created", now);
    let change = SessionChange {
        used_card: Some(new.card),
        idempotency: idempotency.transpose()?,
        ..change
    };
    let write = session.seal_write(vault, &effects, change)?;
    vault.store.insert_threeds_session(caller.permit_lookup(REQUIRED_PERMISSION)?, write).await?;
    Ok(view)
}

/// A secret for the result URL, known only to the directory server.
fn random_secret(fill_random: fn(&mut [u8])) -> String {
    let mut bytes = [0; 32];
    fill_random(&mut bytes);
    encode_hex(&bytes)
}
