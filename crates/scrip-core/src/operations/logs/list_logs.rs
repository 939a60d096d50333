//! List Logs: the audit log and the read log of a tenant. Each page that is read is itself
//! recorded.

use scrip_seal::{Place, Sealed};

use crate::{
    Error, Vault,
    audit::{LogKind, LogRecord, RecordFilter},
    listing::{CursorPage, cursor},
    policy::Caller,
    read_log::ReadLogEntry,
    recording::log_page::{LogPageRequest, NEWEST_POSITIONS, fill_log_page},
    types::{Operation, Permission},
};

/// A filter, and the page to return.
#[derive(Debug)]
pub struct ListLogsQuery {
    pub filter: RecordFilter,
    pub start: Option<Sealed>,
    /// The page number, counted from `start`. The first page is 1.
    pub page: Option<usize>,
    pub size: usize,
}

/// Returns one page of both logs, newest first, and records the read.
/// Errors: the cursor belongs to another query, or the page number is too large.
pub async fn list_logs(
    vault: &Vault,
    caller: &Caller,
    query: ListLogsQuery,
) -> Result<CursorPage<(LogKind, LogRecord)>, Error> {
    let sealed_start = query.start.as_ref();
    let start = sealed_start.map(|it| cursor::open_log_positions(caller, place(&query.filter), it));
    let start = start.transpose()?.unwrap_or(NEWEST_POSITIONS);
    // Older records are not returned, whether they are pruned or not.
    let retained_since = vault.clock.latest().minus(caller.tenant().quotas.log_retention());
    // Page numbers count from the newest record. The record of this read would shift the following
    // pages, so records of List Logs are omitted.
    let without_log_reads = query.page.is_some() && query.filter.operation.is_none();
    let from = query.filter.from.max(Some(retained_since));
    let filter = RecordFilter { from, without_log_reads, ..query.filter.clone() };
    let skip = query.page.unwrap_or(1).saturating_sub(1).saturating_mul(query.size);
    let request = LogPageRequest { filter: &filter, start, skip, size: query.size };
    let page = fill_log_page(vault, caller, request).await?;
    // Clients that use page numbers treat a short page as the last one.
    if query.page.is_some() && page.next_positions.is_some() && page.records.len() < query.size {
        let reason = "too many records to scan for a page number; narrow start_date and \
                          end_date, or pass the next of a page as start";
        return Err(Error::Unprocessable { reason });
    }
    let next =
        page.next_positions.map(|it| cursor::seal_log_positions(caller, place(&query.filter), it));
    let entries = vec![ReadLogEntry::new(caller.tenant().id.to_string(), "read")];
    vault.record_reads(caller, Operation::ListLogs, entries).await?;
    Ok(CursorPage { items: page.records, size: query.size, next })
}

/// The query that a cursor is bound to.
fn place(filter: &RecordFilter) -> Place {
    let RecordFilter { entity_type, entity, operation, outcome, actor, api_key, from, to, .. } =
        filter;
    Place::new("cursor")
        .text(Permission::LogRead.as_str())
        .text(entity_type.map_or("", |it| it.as_str()))
        .optional_bytes(entity.as_ref().map(|it| it.as_bytes()))
        .text(operation.map_or("", |it| it.as_str()))
        .text(outcome.unwrap_or(""))
        .optional_bytes(actor.as_ref().map(|it| it.0.as_bytes().as_slice()))
        .optional_bytes(api_key.as_ref().map(|it| it.0.as_bytes().as_slice()))
        .optional_number(from.map(|it| it.unix_ms))
        .optional_number(to.map(|it| it.unix_ms))
}
