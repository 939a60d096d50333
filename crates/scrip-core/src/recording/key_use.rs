//! The last recorded use of an API key. Records have no index on the key, because requests would
//! pay for it; a rare search scans both logs of the tenant backwards instead.

use crate::{
    Error, Timestamp, Vault,
    audit::{LogKind, LogRecord, ReadRecording},
    types::id::{ApiKeyId, TenantId},
    work_meter::yield_now,
};

/// The maximum number of records per log that one search scans.
const RECORDS_MAX: i64 = 2_000_000;
/// The number of records per scan.
const WINDOW_RECORDS: i64 = 1000;

/// The result of a search for the uses of an API key.
#[derive(Debug)]
pub struct LastKeyUse {
    /// The newest record of a request with this key, or of an access session that it authorized.
    pub record: Option<(LogKind, LogRecord)>,
    /// Older records were pruned or not scanned. `None` if the scanned records are complete.
    pub searched_since: Option<Timestamp>,
    /// Whether the logs contain reads and rejected requests.
    pub reads_are_recorded: bool,
}

/// Finds the newest record with the API key in both logs of its tenant.
pub async fn find_last_key_use(
    vault: &Vault,
    tenant: TenantId,
    api_key: ApiKeyId,
) -> Result<LastKeyUse, Error> {
    let mut last_use = LastKeyUse {
        record: None,
        searched_since: None,
        reads_are_recorded: vault.audit_trail.read_recording != ReadRecording::Off,
    };
    for log in LogKind::ALL {
        let scan = scan_log(vault, log, tenant, api_key).await?;
        last_use.searched_since = last_use.searched_since.max(scan.searched_since);
        let found = scan.record.map(|it| (log, it));
        let time = |it: &Option<(LogKind, LogRecord)>| it.as_ref().map(|(_, it)| it.at);
        if time(&found) > time(&last_use.record) {
            last_use.record = found;
        }
    }
    Ok(last_use)
}

/// The result of the scan of one log.
struct LogScan {
    record: Option<LogRecord>,
    searched_since: Option<Timestamp>,
}

async fn scan_log(
    vault: &Vault,
    log: LogKind,
    tenant: TenantId,
    api_key: ApiKeyId,
) -> Result<LogScan, Error> {
    let heads = vault.store.list_heads(log).await?;
    let last = heads.iter().find(|it| it.tenant == tenant).map_or(0, |it| it.sequence);
    let lowest = last.saturating_sub(RECORDS_MAX);
    let mut end = last;
    // The time at which the newest records that are not scanned may have been written.
    let mut searched_since = vault.clock.latest();
    while end > 0 && end > lowest {
        let after = end.saturating_sub(WINDOW_RECORDS).max(0);
        let limit = usize::try_from(WINDOW_RECORDS).unwrap_or(usize::MAX);
        let mut records = vault.store.list_records(log, tenant, after, limit).await?;
        records.retain(|it| it.sequence <= end);
        let Some(first) = records.first() else {
            return Ok(LogScan { record: None, searched_since: Some(searched_since) });
        };
        searched_since = first.at;
        let found = records.into_iter().rev().find(|it| it.api_key == Some(api_key));
        if found.is_some() {
            return Ok(LogScan { record: found, searched_since: None });
        }
        end = after;
        yield_now().await;
    }
    Ok(LogScan { record: None, searched_since: (end > 0).then_some(searched_since) })
}
