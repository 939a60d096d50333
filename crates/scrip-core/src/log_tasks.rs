//! What the background tasks of the logs work with: the newest authentic time, the file of saved
//! heads, and the queue of outcomes of proxied calls.

pub mod head_file;
pub mod outcome_queue;

pub use self::{head_file::SavedHeads, outcome_queue::OutcomeQueue};

use scrip_seal::AuditKey;

use crate::{Error, audit::LogKind, store::Store, types::time::ClockWatermark};

/// The clock watermark with a valid MAC, or its substitute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticTime {
    pub watermark: Option<ClockWatermark>,
    /// The stored watermark has an invalid MAC: no server of this vault wrote it.
    pub is_altered: bool,
}

/// Loads the stored clock watermark. Without a valid one, uses the time of the latest change: the
/// newest head of the audit log with a valid MAC.
pub async fn load_authentic_time(
    store: &dyn Store,
    key: &AuditKey,
) -> Result<AuthenticTime, Error> {
    let stored = store.load_watermark().await?;
    let is_altered = stored.is_some_and(|it| !it.has_valid_mac(key));
    if let Some(stored) = stored.filter(|_| !is_altered) {
        return Ok(AuthenticTime { watermark: Some(stored.watermark), is_altered });
    }
    let heads = store.list_heads(LogKind::Audit).await?;
    let valid_heads = heads.iter().filter(|it| it.has_valid_mac(key, LogKind::Audit));
    let latest = valid_heads.map(|it| it.at).max();
    Ok(AuthenticTime {
        watermark: latest.map(|at| ClockWatermark { now: at, earliest: at }),
        is_altered,
    })
}
