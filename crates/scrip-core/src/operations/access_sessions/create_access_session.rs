//! Create Session: a key that can do nothing yet, and the nonce by which a private application will
//! know it.

use std::fmt;

use scrip_seal::Pepper;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    policy::{
        AccessSessionId, AccessSessionRecord, ApiKeyText, Mandate, Signed,
        access_session::SESSION_LIFETIME,
        application::{SESSION_MARK, random_text},
    },
    store::Beside,
};

pub struct CreatedAccessSession {
    /// Both are shown now, and never again.
    pub key: ApiKeyText,
    pub nonce: String,
    pub expires_at: Timestamp,
}

impl fmt::Debug for CreatedAccessSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CreatedAccessSession")
    }
}

/// # Errors
/// Nobody asks: the operator has no use for a session.
pub async fn create_access_session(
    vault: &Vault,
    mandate: Mandate,
    pepper: &Pepper,
) -> Result<CreatedAccessSession, Error> {
    let caller = mandate.asker()?;
    let (tenant, now) = (caller.tenant(), vault.clock.now());
    let created = CreatedAccessSession {
        key: ApiKeyText::new(tenant.kind, SESSION_MARK, vault.chance),
        nonce: random_text(vault.chance),
        expires_at: now.after(SESSION_LIFETIME),
    };
    let record = AccessSessionRecord {
        id: AccessSessionId(pepper.digest(created.key.expose())),
        tenant: tenant.id,
        application: caller.application(),
        nonce: pepper.digest(&created.nonce),
        created_at: now,
        expires_at: created.expires_at,
        authorized: None,
    };
    let audit = AuditRecord::of(Operation::CreateAccessSession, &mandate, now);
    let entity = caller.application().to_string();
    let written = Beside { audit, entity, answer: None };
    let session = Signed::new(&tenant.keys, record);
    vault.store.insert_access_session(mandate.clone(), session, written).await?;
    Ok(created)
}
