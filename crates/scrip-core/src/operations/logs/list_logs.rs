//! List Logs: what was recorded of a tenant. Each page that is read leaves a record itself.

use scrip_seal::{Place, Sealed};

use crate::{
    Error, Vault,
    audit::{
        LogKind, LogRecord, Operation, ReadLogEntry, RecordFilter,
        log_page::{LogPageRequest, NEWEST_POSITIONS, fill_log_page},
    },
    listing::cursor,
    policy::{Caller, Permission},
};

/// Which records, and which page of them.
#[derive(Debug)]
pub struct ListLogsQuery {
    pub filter: RecordFilter,
    pub start: Option<Sealed>,
    /// Counted from there; the first is 1.
    pub page: Option<usize>,
    pub size: usize,
}

#[derive(Debug)]
pub struct LogPage {
    pub records: Vec<(LogKind, LogRecord)>,
    pub size: usize,
    /// Nothing on the last page.
    pub next: Option<Sealed>,
}

/// # Errors
/// The cursor belongs to another question, or the page is too far down for its number.
pub async fn list_logs(
    vault: &Vault,
    caller: &Caller,
    query: ListLogsQuery,
) -> Result<LogPage, Error> {
    let start = query.start.as_ref();
    let start = start.map(|it| cursor::open_log_positions(caller, place(&query.filter), it));
    let from = start.transpose()?.unwrap_or(NEWEST_POSITIONS);
    // Not shown any longer, whether it was pruned or not.
    let retained_since = vault.clock.latest().minus(caller.tenant().quotas.log_retention());
    // The record of each page would move the pages that are counted from the newest record.
    let without_log_reads = query.page.is_some() && query.filter.operation.is_none();
    let from_date = query.filter.from.max(Some(retained_since));
    let filter = RecordFilter { from: from_date, without_log_reads, ..query.filter.clone() };
    let pass_over = query.page.unwrap_or(1).saturating_sub(1).saturating_mul(query.size);
    let request =
        LogPageRequest { filter: &filter, start: from, skip: pass_over, size: query.size };
    let filled = fill_log_page(vault, caller, request).await?;
    // Who counts pages takes a short one for the last.
    if query.page.is_some() && filled.next_positions.is_some() && filled.records.len() < query.size
    {
        let reason = "there is too much to look through for a page by its number; narrow \
                      start_date and end_date, or go on by the next of a page as start";
        return Err(Error::Unprocessable { reason });
    }
    let next = filled
        .next_positions
        .map(|it| cursor::seal_log_positions(caller, place(&query.filter), it));
    let entries = vec![ReadLogEntry::new(caller.tenant().id.to_string(), "read")];
    vault.record_reads(caller, Operation::ListLogs, entries).await?;
    Ok(LogPage { records: filled.records, size: query.size, next })
}

/// What a cursor is bound to.
fn place(filter: &RecordFilter) -> Place {
    let RecordFilter { entity_type, entity, operation, outcome, actor, from, to, .. } = filter;
    Place::new("cursor")
        .text(Permission::LogRead.as_str())
        .text(entity_type.map_or("", |it| it.as_str()))
        .optional_bytes(entity.as_ref().map(|it| it.as_bytes()))
        .text(operation.map_or("", |it| it.as_str()))
        .text(outcome.unwrap_or(""))
        .optional_bytes(actor.as_ref().map(|it| it.0.as_bytes().as_slice()))
        .optional_number(from.map(|it| it.unix_ms))
        .optional_number(to.map(|it| it.unix_ms))
}
