//! List Logs: what was recorded of a tenant. Each page that is read leaves a record itself.

use scrip_seal::{Place, Sealed};

use crate::{
    Error, Vault,
    audit::{
        Log, LogRecord, Operation, RecordFilter, Seen,
        log_page::{FROM_THE_TOP, Wanted, fill},
    },
    listing::cursor,
    policy::{Caller, Permission},
};

/// Which records, and which page of them.
#[derive(Debug)]
pub struct LogsAsked {
    pub filter: RecordFilter,
    pub start: Option<Sealed>,
    /// Counted from there; the first is 1.
    pub page: Option<usize>,
    pub size: usize,
}

#[derive(Debug)]
pub struct LogPage {
    pub records: Vec<(Log, LogRecord)>,
    pub size: usize,
    /// Nothing on the last page.
    pub next: Option<Sealed>,
}

/// # Errors
/// The cursor belongs to another question, or the page is too far down for its number.
pub async fn list_logs(vault: &Vault, caller: &Caller, asked: LogsAsked) -> Result<LogPage, Error> {
    let start = asked.start.as_ref();
    let start = start.map(|it| cursor::open_numbers(caller, place(&asked.filter), it));
    let from = start.transpose()?.unwrap_or(FROM_THE_TOP);
    // Not shown any longer, whether it was pruned or not.
    let kept = vault.clock.latest().before(caller.tenant().quotas.log_retention());
    // The record of each page would move the pages that are counted from the newest record.
    let without_log_reads = asked.page.is_some() && asked.filter.operation.is_none();
    let from_date = asked.filter.from.max(Some(kept));
    let filter = RecordFilter { from: from_date, without_log_reads, ..asked.filter.clone() };
    let pass_over = asked.page.unwrap_or(1).saturating_sub(1).saturating_mul(asked.size);
    let wanted = Wanted { filter: &filter, from, pass_over, size: asked.size };
    let filled = fill(vault, caller, wanted).await?;
    // Who counts pages takes a short one for the last.
    if asked.page.is_some() && filled.rest.is_some() && filled.records.len() < asked.size {
        let reason = "there is too much to look through for a page by its number; narrow \
                      start_date and end_date, or go on by the next of a page as start";
        return Err(Error::Unprocessable { reason });
    }
    let next = filled.rest.map(|it| cursor::seal_numbers(caller, place(&asked.filter), it));
    let seen = vec![Seen::new(caller.tenant().id.to_string(), "read")];
    vault.record_seen(caller, Operation::ListLogs, seen).await?;
    Ok(LogPage { records: filled.records, size: asked.size, next })
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
