//! Create Session.

use std::time::Duration;

use scrip_seal::Sealed;
use scrip_threeds::{
    code::{Device, DeviceChannel, SessionType},
    format::TransId,
    request::DeviceInfo,
    session::{Effect, Session},
    webhook::EventType,
};
use serde_json::{Map, Value};

use crate::{
    Error, FieldError, Vault,
    audit::Operation,
    id::{SessionId, random_uuid},
    idempotency::{Remember, answer::seal_permitted_answer},
    policy::{Caller, Permission},
    threeds::{
        CardReference, ChallengeMode, Held, SessionBody, SessionRecord, SessionView, Writing,
        check_access, find_card, find_rails, moment,
    },
};

/// Where the card has no end of its own.
const SESSION_RETENTION: Duration = Duration::from_secs(60 * 60);
/// A session that nobody authenticates ends by then, however long its card lives.
const SESSION_RETENTION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A create request after parsing.
#[derive(Debug)]
pub struct NewSession {
    pub card: CardReference,
    pub kind: SessionType,
    pub device: Device,
    /// For a browser also what the server saw of it.
    pub device_info: DeviceInfo,
    pub challenge_mode: ChallengeMode,
    pub metadata: Option<Map<String, Value>>,
}

/// # Errors
/// There is no such card, or no scheme has it; or the tenant has no 3-D Secure.
pub async fn create_session(
    vault: &Vault,
    caller: &Caller,
    new: NewSession,
    remember: Option<Remember<SessionView>>,
) -> Result<SessionView, Error> {
    const NEEDED: Permission = Permission::SessionCreate;
    let (tenant, now) = (caller.tenant(), vault.clock.now());
    check_access(tenant)?;
    let card = find_card(vault, caller, NEEDED, &new.card).await?;
    let card =
        card.ok_or_else(|| FieldError::new(new.card.attribute(), "is no card of this tenant"))?;
    let rails = find_rails(vault, tenant.kind, card.number.as_ref())?;

    let id = SessionId(random_uuid(vault.chance));
    let expires_at = card.expires_at.unwrap_or_else(|| now.after(SESSION_RETENTION));
    let expires_at = expires_at.min(now.after(SESSION_RETENTION_MAX));
    let trans_id = TransId::parse(&id.to_string()).map_err(|_| Error::Internal("id".into()))?;
    let channel = DeviceChannel::of(new.kind, new.device);
    let has_method = rails.first().is_some_and(|it| it.method_url.is_some());
    let state = Session::created(trans_id, new.kind, channel, moment(expires_at));
    let state = if has_method { state.with_method() } else { state };
    let (token, token_intent) = new.card.ids();
    let body = SessionBody {
        state,
        token,
        token_intent,
        containers: card.permit.containers().text(),
        number: card.digest,
        number_version: card.number_version.map(|it| it.to_string()),
        rails,
        device: new.device,
        device_info: new.device_info,
        challenge_mode: new.challenge_mode,
        metadata: new.metadata,
        secret: secret(vault.chance),
        modified: None,
        method_sent: None,
    };
    let record = SessionRecord {
        tenant: tenant.id,
        id,
        created_by: caller.application(),
        created_at: now,
        ends_at: None,
        revision: 1,
        card: new.card.of_session(),
        body: Sealed::from_stored(Vec::new()),
    };
    let mut held = Held { record, body };
    let view = SessionView::of(vault, &held)?;
    let answer = remember.as_ref().map(|it| {
        seal_permitted_answer(&card.permit, it.claim.digest, (it.render)(&view), None, now)
    });
    let effects = [Effect::Emit { event: EventType::Created, status: None }];
    let writing = Writing::new(caller, Operation::CreateSession, "created", now);
    let writing = Writing { used: Some(new.card), answer: answer.transpose()?, ..writing };
    let write = held.sealed_write(vault, &effects, writing)?;
    vault.store.insert_session(caller.inquire(NEEDED)?, write).await?;
    Ok(view)
}

/// What only the directory server is told.
fn secret(chance: fn(&mut [u8])) -> String {
    let mut bytes = [0; 32];
    chance(&mut bytes);
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}
