//! Create Session: a key without rights, and the nonce that a private application needs to
//! authorize it.

use scrip_seal::Pepper;

use crate::{
    Error, Timestamp, Vault,
    audit::AuditRecord,
    change::CommitExtras,
    events::{EventSource, payload::application::describe_access_session},
    policy::{
        AccessSessionId, AccessSessionRecord, ApiKeyText, PolicyPermit, SignedRow,
        access_session::ACCESS_SESSION_LIFETIME,
        application::{SESSION_KEY_SEGMENT, random_text},
    },
    types::{EventType, Operation},
};

/// A new session, as the response returns it.
pub struct CreatedAccessSession {
    /// The key and the nonce are returned once and never again.
    pub key: ApiKeyText,
    pub nonce: String,
    pub expires_at: Timestamp,
}

hide_in_debug! { CreatedAccessSession }

/// Errors: the permit is the operator's, who has no application.
pub async fn create_access_session(
    vault: &Vault,
    permit: PolicyPermit,
    pepper: &Pepper,
) -> Result<CreatedAccessSession, Error> {
    let caller = permit.require_caller()?;
    let (tenant, now) = (caller.tenant(), vault.clock.now());
    let created = CreatedAccessSession {
        key: ApiKeyText::new(tenant.kind, SESSION_KEY_SEGMENT, vault.fill_random),
        nonce: random_text(vault.fill_random),
        expires_at: now.plus(ACCESS_SESSION_LIFETIME),
    };
    let record = AccessSessionRecord {
        id: AccessSessionId(pepper.api_key_digest(created.key.expose())),
        tenant: tenant.id,
        application: caller.application(),
        nonce: pepper.api_key_digest(&created.nonce),
        created_at: now,
        expires_at: created.expires_at,
        grant: None,
    };
    let audit = AuditRecord::for_policy(Operation::CreateAccessSession, &permit, now);
    let entity = caller.application().to_string();
    let deliveries = EventSource::new(tenant, &audit, vault.fill_random)
        .raise(EventType::SessionCreated, || describe_access_session(&record, tenant));
    let extras = CommitExtras { audit, entity, idempotency: None, deliveries };
    let session = SignedRow::new(&tenant.keys, record);
    vault.store.insert_access_session(permit.clone(), session, extras).await?;
    Ok(created)
}
