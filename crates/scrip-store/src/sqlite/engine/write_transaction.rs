//! A transaction of the embedded engine, as shared code writes to it.

use scrip_core::{
    audit::{AuditRecord, LogKind, RecordSubject},
    id::TenantId,
    idempotency::IdempotencyRecord,
    store::StoreError,
};

use crate::{
    shared::idempotency::token_number_of,
    sql::{
        ColumnReader, Execute, NO_LAST_EVENT, Parameter, Statements, WriteTransaction, parameters,
        required,
    },
    sqlite::engine::{
        statement::{execute, try_insert},
        transaction::SqliteTransaction,
    },
};

impl Statements for SqliteTransaction<'_> {
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

const INSERT_IDEMPOTENCY_RECORD: &str = "
-- insert_answer
INSERT INTO answers (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4)";

const INSERT_RESPONSE_TOKEN_DATA: &str = "
-- insert_part
INSERT INTO answer_data (answer, at, token, sealed) VALUES ($1, $2, $3, $4)";

/// Behind all that there are, also where somebody set the number back.
const RESERVE_EVENT_NUMBERS: &str = "
-- next_events
UPDATE event_state
SET last = max(last, coalesce((SELECT max(seq) FROM session_events), 0)) + $1
WHERE one = 1 RETURNING last";

pub(crate) const STATEMENTS: &[&str] =
    &[FIND_TENANT, INSERT_IDEMPOTENCY_RECORD, INSERT_RESPONSE_TOKEN_DATA, RESERVE_EVENT_NUMBERS];

impl Execute for SqliteTransaction<'_> {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        execute(self, sql, parameters)
    }
}

impl WriteTransaction for SqliteTransaction<'_> {
    async fn append_audit_record(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) -> Result<(), StoreError> {
        self.append_entry(audit, RecordSubject { log: LogKind::Audit, tenant, entity, outcome })
    }

    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        let found = self.find(FIND_TENANT, &parameters![tenant], |_| Ok(())).await?;
        found.ok_or_else(|| StoreError::Unavailable("the tenant was deleted meanwhile".into()))
    }

    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        answer: &IdempotencyRecord,
        tokens: &[i64],
    ) -> Result<bool, StoreError> {
        let IdempotencyRecord { digest, created_at, head, token_data: parts } = answer;
        let row = parameters![tenant, digest, *created_at, head];
        let Some(seq) = try_insert(self, INSERT_IDEMPOTENCY_RECORD, &row)? else {
            return Ok(false);
        };
        for part in parts {
            let token = token_number_of(part, tokens)?;
            execute(
                self,
                INSERT_RESPONSE_TOKEN_DATA,
                &parameters![seq, part.write_index, token, &part.sealed],
            )?;
        }
        Ok(true)
    }

    async fn reserve_event_numbers(&self, many: usize) -> Result<i64, StoreError> {
        let last =
            self.find(RESERVE_EVENT_NUMBERS, &parameters![many], |row| required(row, 0)).await?;
        last.ok_or(NO_LAST_EVENT)
    }
}
