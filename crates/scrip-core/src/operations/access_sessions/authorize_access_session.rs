//! Authorize Session: a private application lends a session some of its rights, once.

use std::fmt;

use scrip_seal::Pepper;

use crate::{
    Timestamp, Vault,
    audit::{AuditRecord, Operation},
    error::{Error, FieldError, Refusal},
    idempotency::{Remember, answer::seal_plain_answer},
    policy::{
        AccessPolicy, ApplicationKind, Mandate, Signed,
        access_session::{Authorized, SESSION_LIFETIME_MAX},
    },
    store::{Beside, Changed},
};

pub struct Authorization {
    pub nonce: String,
    pub access: AccessPolicy,
    pub expires_at: Option<Timestamp>,
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization")
    }
}

/// # Errors
/// The caller would lend what it does not have; there is no such session, or it was authorized
/// before.
pub async fn authorize_access_session(
    vault: &Vault,
    mandate: Mandate,
    pepper: &Pepper,
    asked: Authorization,
    remember: Option<Remember<()>>,
) -> Result<(), Error> {
    let caller = mandate.asker()?;
    asked.access.check(ApplicationKind::Private).map_err(Error::Invalid)?;
    if let Some(permission) = caller.principal().exceeds(&asked.access) {
        return Err(Error::Forbidden(Refusal::MoreThanOwn(permission)));
    }
    let now = vault.clock.now();
    let bounds = now..=now.after(SESSION_LIFETIME_MAX);
    if asked.expires_at.is_some_and(|it| it <= now || !bounds.contains(&it)) {
        let rule = "must be in the future, and within 24 hours";
        return Err(FieldError::new("expires_at", rule).into());
    }
    let nonce = pepper.digest(&asked.nonce);
    let found = vault.store.find_access_session_by_nonce(&mandate, nonce).await?;
    let found = found.filter(|it| it.record.expires_at > now).ok_or(Error::NotFound)?;
    if !found.is_ours(&caller.tenant().keys) {
        return Err(Error::Internal("the row of an access session was altered".into()));
    }
    let mut record = found.record;
    if record.authorized.is_some() {
        return Err(used());
    }
    record.expires_at = asked.expires_at.unwrap_or(record.expires_at);
    let by = caller.application();
    let api_key = caller.api_key();
    let api_key = api_key.ok_or_else(|| Error::Internal("the caller has no API key".into()))?;
    record.authorized = Some(Authorized { by, api_key, at: now, access: asked.access });

    let answer = remember.as_ref().map(|it| {
        let rendered = (it.render)(&());
        seal_plain_answer(caller, it.claim.digest, rendered, mandate.needs(), now)
    });
    let audit = AuditRecord::of(Operation::AuthorizeAccessSession, &mandate, now);
    let entity = record.application.to_string();
    let written = Beside { audit, entity, answer: answer.transpose()? };
    let session = Signed::new(&caller.tenant().keys, record);
    match vault.store.authorize_access_session(mandate.clone(), session, written).await? {
        Changed::Done => Ok(()),
        Changed::Stale => Err(used()),
    }
}

fn used() -> Error {
    Error::Conflict { reason: "this nonce was used before" }
}
