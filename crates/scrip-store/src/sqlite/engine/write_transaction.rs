//! A transaction of the embedded engine, as shared code writes to it.

use scrip_core::{
    audit::{AuditRecord, Entry, Log},
    id::TenantId,
    idempotency::AnswerRecord,
    store::StoreError,
};

use crate::{
    rules::answers::shown_token,
    sql::{
        ColumnReader, Execute, NO_LAST_EVENT, Parameter, Statements, WriteTransaction, parameters,
        required,
    },
    sqlite::engine::{
        statement::{execute, try_insert},
        transaction::Transaction,
    },
};

impl Statements for Transaction<'_> {
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        Statements::query(&**self, sql, parameters, decode).await
    }
}

const FIND_TENANT: &str = "-- find_tenant\nSELECT 1 FROM tenants WHERE id = $1";

const INSERT_ANSWER: &str = "
-- insert_answer
INSERT INTO answers (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4)";

const INSERT_PART: &str = "
-- insert_part
INSERT INTO answer_data (answer, at, token, sealed) VALUES ($1, $2, $3, $4)";

/// Behind all that there are, also where somebody set the number back.
const NEXT_EVENTS: &str = "
-- next_events
UPDATE event_state
SET last = max(last, coalesce((SELECT max(seq) FROM session_events), 0)) + $1
WHERE one = 1 RETURNING last";

pub(crate) const STATEMENTS: &[&str] = &[FIND_TENANT, INSERT_ANSWER, INSERT_PART, NEXT_EVENTS];

impl Execute for Transaction<'_> {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        execute(self, sql, parameters)
    }
}

impl WriteTransaction for Transaction<'_> {
    async fn append(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) -> Result<(), StoreError> {
        self.append_entry(audit, Entry { log: Log::Audit, tenant, entity, outcome })
    }

    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        let found = self.find(FIND_TENANT, &parameters![tenant], |_| Ok(())).await?;
        found.ok_or_else(|| StoreError::Unavailable("the tenant was deleted meanwhile".into()))
    }

    async fn try_insert_answer(
        &self,
        tenant: TenantId,
        answer: &AnswerRecord,
        tokens: &[i64],
    ) -> Result<bool, StoreError> {
        let AnswerRecord { digest, created_at, head, parts } = answer;
        let row = parameters![tenant, digest, *created_at, head];
        let Some(seq) = try_insert(self, INSERT_ANSWER, &row)? else { return Ok(false) };
        for part in parts {
            let token = shown_token(part, tokens)?;
            execute(self, INSERT_PART, &parameters![seq, part.at, token, &part.sealed])?;
        }
        Ok(true)
    }

    async fn next_events(&self, many: usize) -> Result<i64, StoreError> {
        let last = self.find(NEXT_EVENTS, &parameters![many], |row| required(row, 0)).await?;
        last.ok_or(NO_LAST_EVENT)
    }
}
