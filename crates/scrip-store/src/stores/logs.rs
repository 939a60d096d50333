//! The audit log and the read log, and their chains.

use std::ops::Range;

use scrip_core::{
    audit::{
        Chain, ChainHead, Checkpoint, LogKind, LogRecord, PruneChain, ResignChain, ScanRecords,
        ScannedRecords, record_scan::TIME_DISORDER_MAX_MS,
    },
    policy::LookupPermit,
    read_log::ReadLogBatch,
    store::AuditStore,
    types::{StoreError, StoreFuture, id::TenantId},
};

use crate::{
    shared::log::{ChainStatements, decode_checkpoint, decode_head, decode_log_row},
    sql::{ColumnReader, Execute, Statements, parameters, read_optional, read_required},
};

for_both_engines! {
impl AuditStore {
    fn append_read_log(&self, batch: ReadLogBatch) -> StoreFuture<'_, ()> {
        Box::pin(self.read_log.append(batch))
    }

    /// Skips heads that cannot be decoded, because they must not hide the other heads.
    /// Verification reports them.
    fn list_heads(&self, log: LogKind) -> StoreFuture<'_, Vec<ChainHead>> {
        Box::pin(async move {
            let sql = &Self::chain_statements(log).list_heads;
            let heads = self.chains(log).query(sql, &[], |row| Ok(decode_head(row).ok())).await?;
            Ok(heads.into_iter().flatten().collect())
        })
    }

    fn list_chains(&self, log: LogKind) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move {
            let decode_chain = |row: &dyn ColumnReader| {
                let Ok(head) = decode_head(row) else { return Ok(None) };
                Ok(Some(Chain { head, oldest_at: read_optional(row, 6)? }))
            };
            let sql = &Self::chain_statements(log).list_chains;
            let chains = self.chains(log).query(sql, &[], decode_chain).await?;
            Ok(chains.into_iter().flatten().collect())
        })
    }

    fn list_records(
        &self,
        log: LogKind,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        Box::pin(async move {
            let sql = &Self::chain_statements(log).list_records;
            let key = parameters![tenant, after, records_max];
            self.chain_reader(log, tenant).query(sql, &key, decode_record).await
        })
    }

    fn find_checkpoint(&self, log: LogKind, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>> {
        Box::pin(async move {
            let sql = &Self::chain_statements(log).find_checkpoint;
            self.chain_reader(log, tenant).find(sql, &parameters![tenant], decode_checkpoint).await
        })
    }

    fn scan_records(&self, lookup: LookupPermit, scan: ScanRecords) -> StoreFuture<'_, ScannedRecords> {
        let (log, tenant) = (scan.log, lookup.tenant().id);
        Box::pin(self.read_snapshot(log, tenant, async move |it| {
            let chain = ScannedChain { statements: Self::chain_statements(log), tenant };
            let Some(numbers) = find_number_range(it, chain, &scan).await? else {
                return Ok(ScannedRecords::default());
            };
            let decode_record = |row: &dyn ColumnReader| {
                let row = decode_log_row(row)?;
                Ok(((row.sequence, row.at), scan.filter.matches(&row).then(|| row.to_record())))
            };
            let parameters = parameters![tenant, numbers.start, numbers.end, scan.rows_max];
            let rows = it.query(&chain.statements.scan_records, &parameters, decode_record).await?;
            let scanned = rows.len();
            let last_scanned = rows.last().map(|(position, _)| *position).filter(|_| scanned >= scan.rows_max);
            let records = rows.into_iter().filter_map(|(_, record)| record).collect();
            Ok(ScannedRecords { records, scanned, last_scanned })
        }))
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        let PruneChain { log, tenant, .. } = prune;
        Box::pin(self.write_log(log, tenant, async move |it| {
            prune_chain(it, Self::chain_statements(log), &prune).await
        }))
    }

    fn resign_chain(&self, resign: ResignChain) -> StoreFuture<'_, ()> {
        let ResignChain { log, tenant, .. } = resign;
        Box::pin(self.write_log(log, tenant, async move |it| {
            resign_chain(it, Self::chain_statements(log), &resign).await
        }))
    }
}
}

fn decode_record(row: &dyn ColumnReader) -> Result<LogRecord, StoreError> {
    decode_log_row(row).map(|it| it.to_record())
}

/// Maximum number of records per transaction. Adjacent records share pages, so a batch touches few
/// pages.
const PRUNE_BATCH_SIZE: usize = 128;

/// Deletes the oldest records of a chain and stores a checkpoint after them. The caller ensures
/// that no other transaction writes or prunes this chain.
async fn prune_chain(
    client: &impl Execute,
    statements: &ChainStatements,
    prune: &PruneChain,
) -> Result<usize, StoreError> {
    let tenant = prune.tenant;
    let previous =
        client.find(&statements.find_checkpoint, &parameters![tenant], decode_checkpoint).await?;
    let records = client
        .query(
            &statements.list_records,
            &parameters![tenant, i64::MIN, PRUNE_BATCH_SIZE],
            decode_record,
        )
        .await?;
    let altered_chain = |_| StoreError::Corrupt("an altered chain is not pruned");
    let Some(checkpoint) = prune.checkpoint(previous.as_ref(), &records).map_err(altered_chain)?
    else {
        return Ok(0);
    };
    let row =
        parameters![tenant, checkpoint.sequence, &checkpoint.link, checkpoint.at, &checkpoint.mac];
    client.execute(&statements.put_checkpoint, &row).await?;
    client.execute(&statements.delete_pruned, &parameters![tenant, checkpoint.sequence]).await
}

/// Signs the head and the checkpoint of a chain with the newest audit key. An altered row stays as it
/// is. The caller ensures that no other transaction writes or prunes this chain.
async fn resign_chain(
    client: &impl Execute,
    statements: &ChainStatements,
    resign: &ResignChain,
) -> Result<(), StoreError> {
    let tenant = resign.tenant;
    let decode = |row: &dyn ColumnReader| Ok(decode_head(row).ok());
    let head = client.find(&statements.find_head, &parameters![tenant], decode).await?.flatten();
    if let Some((head, mac)) = head.and_then(|it| Some((it, resign.head_mac(&it)?))) {
        let row = parameters![&mac, tenant, head.sequence];
        client.execute(&statements.resign_head, &row).await?;
    }
    let decode = |row: &dyn ColumnReader| Ok(decode_checkpoint(row).ok());
    let found = client.find(&statements.find_checkpoint, &parameters![tenant], decode).await?;
    if let Some(checkpoint) = found.flatten().and_then(|it| resign.checkpoint(it)) {
        let Checkpoint { sequence, link, at, mac, .. } = &checkpoint;
        let row = parameters![tenant, *sequence, link, *at, mac];
        client.execute(&statements.put_checkpoint, &row).await?;
    }
    Ok(())
}

/// The tenant and the statements of a scanned chain.
#[derive(Clone, Copy)]
struct ScannedChain<'a> {
    statements: &'a ChainStatements,
    tenant: TenantId,
}

/// Times almost grow with sequence numbers, so a binary search finds the records of a time filter.
/// Records near the limits are checked one by one.
///
/// Sequence numbers of the records that can match the filter; `None` for an empty chain.
async fn find_number_range(
    client: &impl Statements,
    chain: ScannedChain<'_>,
    scan: &ScanRecords,
) -> Result<Option<Range<i64>>, StoreError> {
    let decode_numbers =
        |row: &dyn ColumnReader| Ok((read_optional(row, 0)?, read_optional(row, 1)?));
    let first_and_last = client
        .find(&chain.statements.find_first_and_last, &parameters![chain.tenant], decode_numbers)
        .await?;
    let Some((Some(first), Some(last))) = first_and_last else { return Ok(None) };
    let last: i64 = last;
    let (mut start, mut end) = (first, last.saturating_add(1).min(scan.before));
    if let Some(to) = scan.filter.to {
        // If a record is later than the filter by more than the maximum disorder, all records
        // after it are too late.
        let too_late = to.unix_ms.saturating_add(TIME_DISORDER_MAX_MS);
        end = binary_search(client, chain, start..end, |it| it.earliest >= too_late).await?;
    }
    if let Some(from) = scan.filter.from {
        // If a record is earlier than the filter by more than the maximum disorder, all records
        // before it are too early.
        let not_too_early = from.unix_ms.saturating_sub(TIME_DISORDER_MAX_MS);
        start = binary_search(client, chain, start..end, |it| it.latest >= not_too_early).await?;
    }
    Ok(Some(start..end))
}

/// Finds the first number for which the condition is true. The result is the end if the condition
/// is never true, and the start if it is always true.
async fn binary_search(
    client: &impl Statements,
    chain: ScannedChain<'_>,
    mut numbers: Range<i64>,
    is_true: impl Fn(TimeRange) -> bool,
) -> Result<i64, StoreError> {
    while numbers.start < numbers.end {
        let half_length = numbers.end.saturating_sub(numbers.start) / 2;
        let middle = numbers.start.saturating_add(half_length);
        if is_true(find_time_range(client, chain, middle).await?) {
            numbers.end = middle;
        } else {
            numbers.start = middle.saturating_add(1);
        }
    }
    Ok(numbers.start)
}

/// Earliest and latest time of consecutive records.
struct TimeRange {
    earliest: i64,
    latest: i64,
}

/// Number of records per time range. Operator commands use their own clock, so the time of a single
/// record is not reliable.
const SAMPLED_RECORDS: i64 = 8;

async fn find_time_range(
    client: &impl Statements,
    chain: ScannedChain<'_>,
    first_number: i64,
) -> Result<TimeRange, StoreError> {
    let decode_times = |row: &dyn ColumnReader| {
        Ok(TimeRange { earliest: read_required(row, 0)?, latest: read_required(row, 1)? })
    };
    let parameters = parameters![chain.tenant, first_number, SAMPLED_RECORDS];
    let time_range =
        client.find(&chain.statements.find_time_range, &parameters, decode_times).await?;
    time_range.ok_or(StoreError::Corrupt("a record of the chain disappeared during the scan"))
}
