//! JSON of audit log and read log records.

#[cfg(test)]
mod tests;

use scrip_core::{
    Error, Timestamp,
    audit::{
        LogKind, LogRecord, RecordFilter,
        message::{message, parse_outcome},
    },
    idempotency::RenderedResponse,
    listing::{CursorPage, PAGE_SIZE_DEFAULT},
    operations::logs::list_logs::ListLogsQuery,
    types::{
        EntityType, Operation,
        id::{ApiKeyId, ApplicationId},
    },
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    query::{QueryParameters, invalid_parameter},
    response::render,
    tokens::list::{cursor_page_body, parse_cursor},
};

/// Longer than the longest entity id.
const ENTITY_CHARS_MAX: usize = 512;

pub(crate) fn parse(query: &QueryParameters<'_>) -> Result<ListLogsQuery, ParseError> {
    let rule = "is not a known value";
    let entity = query.one("entity_id")?;
    if entity.is_some_and(|it| it.chars().count() > ENTITY_CHARS_MAX) {
        return Err(invalid_parameter("entity_id", "must have at most 512 characters"));
    }
    let filter = RecordFilter {
        entity_type: query.parse_choice(
            "entity_type",
            EntityType::parse,
            "is not a known value; GET /logs/entity-types lists them",
        )?,
        entity: entity.map(str::to_owned),
        operation: query.parse_choice("operation", Operation::parse, rule)?,
        outcome: query.parse_choice("outcome", parse_outcome, rule)?,
        actor: query.parse_choice(
            "actor_id",
            ApplicationId::parse,
            "must be the id of an application",
        )?,
        api_key: query.parse_choice(
            "api_key_id",
            ApiKeyId::parse,
            "must be the id of an API key, not the key",
        )?,
        from: parse_date(query, "start_date")?,
        to: parse_date(query, "end_date")?,
        without_log_reads: false,
    };
    Ok(ListLogsQuery {
        filter,
        start: query.one("start")?.map(parse_cursor).transpose()?,
        page: parse_page(query)?,
        size: query.size()?.unwrap_or(PAGE_SIZE_DEFAULT),
    })
}

/// Limited to 32 bits.
fn parse_page(query: &QueryParameters<'_>) -> Result<Option<usize>, ParseError> {
    let page = query.page_number()?;
    if page.is_some_and(|it| u32::try_from(it).is_err()) {
        return Err(invalid_parameter("page", "must be at most 4294967295"));
    }
    Ok(page)
}

fn parse_date(
    query: &QueryParameters<'_>,
    name: &'static str,
) -> Result<Option<Timestamp>, ParseError> {
    let parse = |it: &str| Timestamp::parse_date(name, it);
    let date = query.one(name)?.map(parse).transpose();
    date.map_err(|error| ParseError::Failed(Error::from(error)))
}

bodies! {
    #[derive(Debug)]
    pub struct LogBody<'a> {
        id: String,
        tenant_id: String,
        actor_id?: String,
        actor_type: &'a str,
        api_key_id?: String,
        entity_type?: &'static str,
        #[serde(skip_serializing_if = "str::is_empty")]
        entity_id: &'a str,
        operation: &'a str,
        outcome: &'a str,
        message?: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        trace_id: &'a str,
        address: &'a str,
        created_at: String,
    }
}

pub fn body(log: LogKind, record: &LogRecord) -> LogBody<'_> {
    let operation = Operation::parse(&record.operation);
    LogBody {
        // The sequence number of a record never changes and is never reused.
        id: format!("{}-{}", log.as_str(), record.sequence),
        tenant_id: record.tenant.to_string(),
        actor_id: record.actor.map(|it| it.to_string()),
        actor_type: &record.actor_kind,
        api_key_id: record.api_key.map(|it| it.to_string()),
        entity_type: operation.and_then(Operation::entity_type).map(EntityType::as_str),
        entity_id: &record.entity,
        operation: &record.operation,
        outcome: &record.outcome,
        message: message(&record.operation, &record.outcome, record.detail.as_deref()),
        trace_id: &record.trace,
        address: &record.address,
        created_at: record.at.to_string(),
    }
}

pub(crate) fn render_page(page: &CursorPage<(LogKind, LogRecord)>) -> RenderedResponse {
    render(200, &cursor_page_body(page, |(log, it)| body(*log, it)))
}

#[derive(Serialize)]
struct EntityTypeBody {
    display_name: &'static str,
    value: &'static str,
}

pub(crate) fn render_entity_types() -> RenderedResponse {
    let body = |it: EntityType| EntityTypeBody { display_name: it.name(), value: it.as_str() };
    render(200, &EntityType::ALL.map(body))
}
