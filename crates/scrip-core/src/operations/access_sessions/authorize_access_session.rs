//! Authorize Session: a private application delegates some of its rights to a session, once.

use scrip_seal::Pepper;

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras},
    events::{EventSource, payload::application::describe_access_session},
    idempotency::{ResponseRecorder, response::seal_response},
    policy::{
        AccessPolicy, PolicyPermit, SignedRow,
        access_session::{ACCESS_SESSION_LIFETIME_MAX, AccessSessionGrant},
    },
    types::{ApplicationKind, EventType, Operation, error::Denial},
};

/// A parsed request that authorizes a session.
pub struct AccessSessionAuthorization {
    pub nonce: String,
    pub access: AccessPolicy,
    pub expires_at: Option<Timestamp>,
}

hide_in_debug! { AccessSessionAuthorization }

/// Errors: the caller would delegate rights that it does not have, there is no such session, or it
/// is already authorized.
pub async fn authorize_access_session(
    vault: &Vault,
    permit: PolicyPermit,
    pepper: &Pepper,
    authorization: AccessSessionAuthorization,
    recorder: Option<ResponseRecorder<()>>,
) -> Result<(), Error> {
    let caller = permit.require_caller()?;
    authorization.access.check(ApplicationKind::Private).map_err(Error::Invalid)?;
    if let Some(permission) = caller.principal().find_exceeding_permission(&authorization.access) {
        return Err(Error::Forbidden(Denial::ExceedsAuthorizer(permission)));
    }
    let now = vault.clock.now();
    let allowed_times = now..=now.plus(ACCESS_SESSION_LIFETIME_MAX);
    if authorization.expires_at.is_some_and(|it| it <= now || !allowed_times.contains(&it)) {
        let rule = "must be in the future and within 24 hours";
        return Err(FieldError::new("expires_at", rule).into());
    }
    let nonce = pepper.api_key_digest(&authorization.nonce);
    let row = vault.store.find_access_session_by_nonce(&permit, nonce).await?;
    let row = row.filter(|it| it.record.expires_at > now).ok_or_else(unknown_nonce_error)?;
    if !row.has_valid_mac(&caller.tenant().keys) {
        return Err(Error::Internal("the row of an access session was altered".into()));
    }
    let mut record = row.record;
    if record.grant.is_some() {
        return Err(nonce_used_error());
    }
    record.expires_at = authorization.expires_at.unwrap_or(record.expires_at);
    let authorizer = caller.application();
    let api_key = caller.api_key();
    let api_key = api_key.ok_or_else(|| Error::Internal("the caller has no API key".into()))?;
    record.grant =
        Some(AccessSessionGrant { authorizer, api_key, at: now, access: authorization.access });

    let idempotency = recorder.as_ref().map(|it| {
        let rendered = (it.render)(&());
        seal_response(caller, it.claim.digests, rendered, permit.requirement(), now)
    });
    let audit = AuditRecord::for_policy(Operation::AuthorizeAccessSession, &permit, now);
    let entity = record.application.to_string();
    let idempotency = idempotency.transpose()?;
    let tenant = caller.tenant();
    let deliveries = EventSource::new(tenant, &audit, vault.fill_random)
        .raise(EventType::SessionAuthorized, || describe_access_session(&record, tenant));
    let extras = CommitExtras { audit, entity, idempotency, deliveries };
    let session = SignedRow::new(&tenant.keys, record);
    match vault.store.authorize_access_session(permit.clone(), session, extras).await? {
        ChangeOutcome::Done => Ok(()),
        ChangeOutcome::Stale => Err(nonce_used_error()),
    }
}

fn unknown_nonce_error() -> Error {
    let reason = "Not found. No access session of this tenant has this nonce, or it has expired.";
    Error::NotFoundBecause { reason }
}

fn nonce_used_error() -> Error {
    Error::Conflict { reason: "this nonce was used before" }
}
