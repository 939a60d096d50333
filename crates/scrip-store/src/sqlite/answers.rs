//! Remembered answers and audit records: what commits beside an effect.

use rusqlite::{Connection, OptionalExtension, named_params, params};
use scrip_core::{
    answer::AnswerRecord,
    audit::AuditRecord,
    caller::Actor,
    container::Containers,
    id::TenantId,
    store::{AskedAnswer, Beside, StoreError, StoredAnswer},
    time::Timestamp,
};
use scrip_seal::Sealed;

use crate::sqlite::fault;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const FORGOTTEN_AT_ONCE: i64 = 256;

const INSERT_ANSWER: &str = "
-- insert_answer
INSERT INTO answers (tenant, digest, created_at, head, data, token)
VALUES (:tenant, :digest, :created_at, :head, :data, :token)
ON CONFLICT (digest) DO UPDATE
SET created_at = :created_at, head = :head, data = :data, token = :token
WHERE answers.created_at <= :forgotten";

pub(super) fn insert_answer(
    connection: &Connection,
    tenant: TenantId,
    answer: &AnswerRecord,
    token: Option<i64>,
) -> Result<(), StoreError> {
    let data = answer.data.as_ref().map(Sealed::as_bytes);
    let written = connection
        .prepare_cached(INSERT_ANSWER)
        .and_then(|mut it| {
            it.execute(named_params! {
                ":tenant": tenant.0.as_bytes(),
                ":digest": answer.digest,
                ":created_at": answer.created_at.unix_ms,
                ":head": answer.head.as_bytes(),
                ":data": data,
                ":token": data.and(token),
                ":forgotten": answer.created_at.unix_ms.saturating_sub(DAY_MS),
            })
        })
        .map_err(fault)?;
    if written == 0 {
        // Two effects under one key: this one is taken back with its savepoint.
        return Err(StoreError::Corrupt("a request was answered twice"));
    }
    Ok(())
}

/// The audit record and the answer of an effect that is not a token's.
pub(super) fn insert_beside(
    connection: &Connection,
    tenant: TenantId,
    beside: &Beside,
    outcome: &'static str,
) -> Result<(), StoreError> {
    insert_audit(connection, tenant, &beside.audit, &beside.entity, outcome)?;
    match &beside.answer {
        None => Ok(()),
        Some(answer) => insert_answer(connection, tenant, answer, None),
    }
}

const FIND_ANSWER: &str = "
-- find_answer
SELECT answers.head, answers.created_at, tokens.containers,
    CASE WHEN tokens.seq IS NOT NULL THEN answers.data END
FROM answers LEFT JOIN tokens ON tokens.seq = answers.token AND tokens.tenant = answers.tenant
    AND (tokens.expires_at IS NULL OR tokens.expires_at > :now)
WHERE answers.digest = :digest AND answers.tenant = :tenant AND answers.created_at > :since";

pub(super) fn find_answer(
    connection: &Connection,
    asked: &AskedAnswer,
) -> Result<Option<StoredAnswer>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_ANSWER).map_err(fault)?;
    let parameters = named_params! {
        ":now": asked.now.unix_ms,
        ":digest": asked.digest,
        ":tenant": asked.tenant.0.as_bytes(),
        ":since": asked.since.unix_ms,
    };
    let answer = statement.query_row(parameters, |row| {
        let (containers, data): (Option<String>, Option<Vec<u8>>) = (row.get(2)?, row.get(3)?);
        let answer = StoredAnswer {
            digest: asked.digest,
            created_at: Timestamp { unix_ms: row.get(1)? },
            containers: None,
            head: Sealed::from_stored(row.get(0)?),
            data: data.map(Sealed::from_stored),
        };
        Ok((containers, answer))
    });
    let Some((containers, answer)) = answer.optional().map_err(fault)? else { return Ok(None) };
    let containers = containers.map(|it| Containers::parse(it.split(','))).transpose();
    let corrupt = |_| StoreError::Corrupt("a token's row is not one of ours");
    Ok(Some(StoredAnswer { containers: containers.map_err(corrupt)?, ..answer }))
}

/// Answers lie in the order of their making, so the old ones are found at the front.
const FORGET_ANSWERS: &str = "
-- forget_answers
DELETE FROM answers WHERE seq IN (
    SELECT seq FROM (SELECT seq, created_at FROM answers ORDER BY seq LIMIT :at_once)
    WHERE created_at <= :before
)";

pub(super) fn forget_answers(
    connection: &Connection,
    before: Timestamp,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(FORGET_ANSWERS).map_err(fault)?;
    let parameters = named_params! { ":at_once": FORGOTTEN_AT_ONCE, ":before": before.unix_ms };
    statement.execute(parameters).map_err(fault)
}

const INSERT_AUDIT: &str = "
-- insert_audit
INSERT INTO audit (tenant, at, actor, operation, entity, outcome, trace, address)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

pub(super) fn insert_audit(
    connection: &Connection,
    tenant: TenantId,
    audit: &AuditRecord,
    entity: &str,
    outcome: &'static str,
) -> Result<(), StoreError> {
    let actor = match &audit.actor {
        Actor::Application(id) => Some(id.0.as_bytes()),
        Actor::Operator | Actor::Vault => None,
    };
    connection
        .prepare_cached(INSERT_AUDIT)
        .and_then(|mut it| {
            it.execute(params![
                tenant.0.as_bytes(),
                audit.at.unix_ms,
                actor,
                audit.operation.as_str(),
                entity,
                outcome,
                &*audit.trace,
                audit.address.to_string(),
            ])
        })
        .map(drop)
        .map_err(fault)
}
