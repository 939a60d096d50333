//! Remembered answers: what commits beside an effect.

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use scrip_core::{
    answer::AnswerRecord,
    container::Containers,
    id::{TenantId, TokenId},
    store::{AskedAnswer, Beside, StoreError, StoredAnswer, StoredPart},
    time::Timestamp,
};
use scrip_seal::Sealed;

use crate::sqlite::{
    audit::insert_audit,
    fault,
    tokens::{execute, is_taken},
    transaction::Transaction,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const FORGOTTEN_AT_ONCE: i64 = 256;

const INSERT_ANSWER: &str = "
-- insert_answer
INSERT INTO answers (tenant, digest, created_at, head) VALUES (?1, ?2, ?3, ?4)";

const REPLACE_FORGOTTEN: &str = "
-- replace_forgotten
DELETE FROM answers WHERE digest = ?1 AND created_at <= ?2";

const INSERT_PART: &str = "
-- insert_part
INSERT INTO answer_data (answer, at, token, sealed) VALUES (?1, ?2, ?3, ?4)";

/// `tokens` are the rows of the tokens that its parts show.
pub(super) fn insert_answer(
    connection: &Connection,
    tenant: TenantId,
    answer: &AnswerRecord,
    tokens: &[i64],
) -> Result<(), StoreError> {
    let insert = || {
        connection.prepare_cached(INSERT_ANSWER)?.insert(params![
            tenant.0.as_bytes(),
            answer.digest,
            answer.created_at.unix_ms,
            answer.head.as_bytes(),
        ])
    };
    let seq = match insert() {
        Err(error) if is_taken(&error) => {
            let forgotten = answer.created_at.unix_ms.saturating_sub(DAY_MS);
            if execute(connection, REPLACE_FORGOTTEN, (answer.digest, forgotten))? == 0 {
                // Two effects under one key: this one is taken back with its savepoint.
                return Err(StoreError::Answered);
            }
            insert().map_err(fault)?
        }
        inserted => inserted.map_err(fault)?,
    };
    for part in &answer.parts {
        let token = tokens.get(part.at).ok_or(StoreError::Corrupt("an answer shows no token"))?;
        let at = i64::try_from(part.at).unwrap_or(i64::MAX);
        execute(connection, INSERT_PART, (seq, at, token, part.sealed.as_bytes()))?;
    }
    Ok(())
}

/// The audit record and the answer of an effect that is not a token's.
pub(super) fn insert_beside(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    beside: &Beside,
    outcome: &'static str,
) -> Result<(), StoreError> {
    insert_audit(transaction, tenant, &beside.audit, &beside.entity, outcome)?;
    match &beside.answer {
        None => Ok(()),
        Some(answer) => insert_answer(transaction, tenant, answer, &[]),
    }
}

const FIND_ANSWER: &str = "
-- find_answer
SELECT head, created_at FROM answers
WHERE digest = :digest AND tenant = :tenant AND created_at > :since";

/// Named by digest and time, not by its row: should it be replaced between the two statements, it
/// has no parts, rather than another's.
const FIND_PARTS: &str = "
-- find_parts
SELECT answer_data.at, tokens.id, tokens.containers, answer_data.sealed
FROM answers JOIN answer_data ON answer_data.answer = answers.seq
    JOIN tokens ON tokens.seq = answer_data.token AND tokens.tenant = answers.tenant
WHERE answers.digest = :digest AND answers.tenant = :tenant AND answers.created_at = :created_at
    AND (tokens.expires_at IS NULL OR tokens.expires_at > :now)
ORDER BY answer_data.at";

pub(super) fn find_answer(
    connection: &Connection,
    asked: &AskedAnswer,
) -> Result<Option<StoredAnswer>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_ANSWER).map_err(fault)?;
    let parameters = named_params! {
        ":digest": asked.digest,
        ":tenant": asked.tenant.0.as_bytes(),
        ":since": asked.since.unix_ms,
    };
    let answer = statement.query_row(parameters, |row| {
        let head = Sealed::from_stored(row.get(0)?);
        let created_at = Timestamp { unix_ms: row.get(1)? };
        Ok(StoredAnswer { digest: asked.digest, created_at, head, parts: Vec::new() })
    });
    let Some(answer) = answer.optional().map_err(fault)? else { return Ok(None) };
    let mut statement = connection.prepare_cached(FIND_PARTS).map_err(fault)?;
    let parameters = named_params! {
        ":digest": asked.digest,
        ":tenant": asked.tenant.0.as_bytes(),
        ":created_at": answer.created_at.unix_ms,
        ":now": asked.now.unix_ms,
    };
    let mut rows = statement.query(parameters).map_err(fault)?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        parts.push(stored_part(row)?);
    }
    Ok(Some(StoredAnswer { parts, ..answer }))
}

fn stored_part(row: &Row<'_>) -> Result<StoredPart, StoreError> {
    let corrupt = || StoreError::Corrupt("a token's row is not one of ours");
    let at: i64 = row.get(0).map_err(fault)?;
    let text = |at: usize| row.get_ref(at).map_err(fault)?.as_str().map_err(|_| corrupt());
    Ok(StoredPart {
        at: usize::try_from(at).map_err(|_| corrupt())?,
        token: TokenId::parse(text(1)?).map_err(|_| corrupt())?,
        containers: Containers::parse(text(2)?.split(',')).map_err(|_| corrupt())?,
        sealed: Sealed::from_stored(row.get(3).map_err(fault)?),
    })
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
