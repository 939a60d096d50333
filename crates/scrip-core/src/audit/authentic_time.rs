//! The time that the vault knows, as far as it is authentic.

use scrip_seal::AuditKey;

use crate::{audit::Log, error::Error, store::Store, time::KnownTime};

/// What the vault knows about the time, as far as it is authentic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticTime {
    pub known: Option<KnownTime>,
    /// A time was noted that no server of this vault wrote.
    pub is_altered: bool,
}

/// What a server noted last; else the time of the latest change, by the heads of the audit log that
/// are ours.
///
/// # Errors
/// The store did not answer.
pub async fn authentic_time(store: &dyn Store, key: &AuditKey) -> Result<AuthenticTime, Error> {
    let noted = store.known_time().await?;
    let is_altered = noted.is_some_and(|it| !it.is_ours(key));
    if let Some(noted) = noted.filter(|_| !is_altered) {
        return Ok(AuthenticTime { known: Some(noted.time), is_altered });
    }
    let heads = store.list_heads(Log::Audit).await?;
    let ours = heads.iter().filter(|it| it.is_ours(key, Log::Audit));
    let latest = ours.map(|it| it.at).max();
    Ok(AuthenticTime { known: latest.map(|at| KnownTime { now: at, earliest: at }), is_altered })
}
