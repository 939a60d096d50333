//! The time that the vault knows, as far as it is authentic.

use scrip_seal::AuditKey;

use crate::{audit::LogKind, error::Error, store::Store, time::ClockWatermark};

/// What the vault knows about the time, as far as it is authentic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticTime {
    pub watermark: Option<ClockWatermark>,
    /// A time was noted that no server of this vault wrote.
    pub is_altered: bool,
}

/// What a server noted last; else the time of the latest change, by the heads of the audit log that
/// are ours.
///
/// # Errors
/// The store did not answer.
pub async fn load_authentic_time(
    store: &dyn Store,
    key: &AuditKey,
) -> Result<AuthenticTime, Error> {
    let noted = store.load_watermark().await?;
    let is_altered = noted.is_some_and(|it| !it.has_valid_mac(key));
    if let Some(noted) = noted.filter(|_| !is_altered) {
        return Ok(AuthenticTime { watermark: Some(noted.watermark), is_altered });
    }
    let heads = store.list_heads(LogKind::Audit).await?;
    let ours = heads.iter().filter(|it| it.has_valid_mac(key, LogKind::Audit));
    let latest = ours.map(|it| it.at).max();
    Ok(AuthenticTime {
        watermark: latest.map(|at| ClockWatermark { now: at, earliest: at }),
        is_altered,
    })
}
