//! Create Session: a key that can do nothing yet, and the nonce by which a private application will
//! know it.

use scrip_seal::Pepper;

use crate::{
    Vault,
    access_session::{AccessSessionId, AccessSessionRecord, SESSION_LIFETIME},
    answer::{Remember, seal_plain_answer},
    application::{ApiKeyText, SESSION_MARK, random_text},
    audit::{AuditRecord, Operation},
    caller::{Caller, Needs},
    error::Error,
    permission::ApplicationKind,
    policy::Signed,
    store::Beside,
    time::Timestamp,
};

#[derive(Debug)]
pub struct CreatedAccessSession {
    /// Both are shown now, and never again.
    pub key: ApiKeyText,
    pub nonce: String,
    pub expires_at: Timestamp,
}

/// # Errors
/// The caller is not a public application.
pub async fn create_access_session(
    vault: &Vault,
    caller: &Caller,
    pepper: &Pepper,
    remember: Option<Remember<CreatedAccessSession>>,
) -> Result<CreatedAccessSession, Error> {
    let mandate = caller.mandate(Needs::Kind(ApplicationKind::Public))?;
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
    let answer = remember.as_ref().map(|it| {
        let rendered = (it.render)(&created);
        seal_plain_answer(caller, it.claim.digest, rendered, mandate.needs(), now)
    });
    let audit = AuditRecord::of(Operation::CreateAccessSession, &mandate, now);
    let entity = caller.application().to_string();
    let written = Beside { audit, entity, answer: answer.transpose()? };
    let session = Signed::new(&tenant.keys, record);
    vault.store.insert_access_session(mandate, session, written).await?;
    Ok(created)
}
