//! A transaction of PostgreSQL, as shared code writes to it.

use scrip_core::{
    audit::AuditRecord, id::TenantId, idempotency::IdempotencyRecord, store::StoreError,
};

use crate::{
    postgres::engine::{
        statement::{PostgresClient, raw},
        transaction::PostgresTransaction,
    },
    shared::idempotency::token_number_of,
    sql::{Execute, NO_LAST_EVENT, Parameter, WriteTransaction, parameters, required},
};

/// The row is what makes a request be answered once: whoever comes second, on whichever node, finds
/// it there and is taken back.
const INSERT_IDEMPOTENCY_RECORD: &str = "
-- insert_answer
WITH answered AS (
    INSERT INTO answers (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, digest) DO NOTHING
    RETURNING digest
), shown AS (
    INSERT INTO answer_data (tenant, digest, at, token, sealed)
    SELECT $1, answered.digest, it.at, it.token, it.sealed
    FROM answered
    CROSS JOIN unnest($5::bigint[], $6::bigint[], $7::bytea[]) AS it (at, token, sealed)
)
    SELECT 1 FROM answered";

/// The row is locked until the commit, so numbers are seen in their order. Behind all that there
/// are, also where somebody set the number back.
const RESERVE_EVENT_NUMBERS: &str = "
-- next_events
UPDATE event_state
SET last = greatest(last, coalesce((SELECT max(seq) FROM session_events), 0)) + $1
WHERE one = 1 RETURNING last";

impl Execute for PostgresTransaction {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &raw(parameters)).await
    }
}

impl WriteTransaction for PostgresTransaction {
    async fn append_audit_record(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) -> Result<(), StoreError> {
        self.check_tenant_matches(tenant)?;
        self.append_record(audit, entity, outcome);
        Ok(())
    }

    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.check_tenant_matches(tenant)?;
        self.check_tenant_exists()
    }

    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        answer: &IdempotencyRecord,
        tokens: &[i64],
    ) -> Result<bool, StoreError> {
        let IdempotencyRecord { digest, created_at, head, token_data: parts } = answer;
        let at: Vec<_> =
            parts.iter().map(|it| i64::try_from(it.write_index).unwrap_or(i64::MAX)).collect();
        let shown = parts.iter().map(|it| token_number_of(it, tokens));
        let shown = shown.collect::<Result<Vec<_>, _>>()?;
        let sealed: Vec<_> = parts.iter().map(|it| it.sealed.as_bytes()).collect();
        let (digest, head) = (digest.as_slice(), head.as_bytes());
        let created_at = created_at.unix_ms;
        let rows = self
            .rows(
                INSERT_IDEMPOTENCY_RECORD,
                &[&tenant.0, &digest, &created_at, &head, &at, &shown, &sealed],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    async fn reserve_event_numbers(&self, many: usize) -> Result<i64, StoreError> {
        let many = parameters![many];
        let rows = self.query_all_tenants(RESERVE_EVENT_NUMBERS, &raw(&many)).await?;
        rows.first().map_or(Err(NO_LAST_EVENT), |row| required(row, 0))
    }
}
