//! A transaction of PostgreSQL, as shared code writes to it.

use scrip_core::{audit::AuditRecord, id::TenantId, idempotency::AnswerRecord, store::StoreError};

use crate::{
    postgres::engine::{
        statement::{PostgresClient, raw},
        transaction::Transaction,
    },
    rules::answers::shown_token,
    sql::{Execute, NO_LAST_EVENT, Parameter, WriteTransaction, parameters, required},
};

/// The row is what makes a request be answered once: whoever comes second, on whichever node, finds
/// it there and is taken back.
const INSERT_ANSWER: &str = "
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
const NEXT_EVENTS: &str = "
-- next_events
UPDATE event_state
SET last = greatest(last, coalesce((SELECT max(seq) FROM session_events), 0)) + $1
WHERE one = 1 RETURNING last";

impl Execute for Transaction {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &raw(parameters)).await
    }
}

impl WriteTransaction for Transaction {
    async fn append(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) -> Result<(), StoreError> {
        self.check_own(tenant)?;
        self.append_record(audit, entity, outcome);
        Ok(())
    }

    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.check_own(tenant)?;
        self.check_present()
    }

    async fn try_insert_answer(
        &self,
        tenant: TenantId,
        answer: &AnswerRecord,
        tokens: &[i64],
    ) -> Result<bool, StoreError> {
        let AnswerRecord { digest, created_at, head, parts } = answer;
        let at: Vec<_> = parts.iter().map(|it| i64::try_from(it.at).unwrap_or(i64::MAX)).collect();
        let shown = parts.iter().map(|it| shown_token(it, tokens));
        let shown = shown.collect::<Result<Vec<_>, _>>()?;
        let sealed: Vec<_> = parts.iter().map(|it| it.sealed.as_bytes()).collect();
        let (digest, head) = (digest.as_slice(), head.as_bytes());
        let created_at = created_at.unix_ms;
        let rows = self
            .rows(INSERT_ANSWER, &[&tenant.0, &digest, &created_at, &head, &at, &shown, &sealed])
            .await?;
        Ok(!rows.is_empty())
    }

    async fn next_events(&self, many: usize) -> Result<i64, StoreError> {
        let many = parameters![many];
        let rows = self.query_every_tenant(NEXT_EVENTS, &raw(&many)).await?;
        rows.first().map_or(Err(NO_LAST_EVENT), |row| required(row, 0))
    }
}
