//! A transaction of PostgreSQL, as shared code writes to it.

use scrip_core::{
    answer::AnswerRecord, audit::AuditRecord, id::TenantId, store::StoreError,
};

use crate::{
    postgres::{
        statement::{PostgresClient, count, raw},
        transaction::Transaction,
    },
    shared::answers::shown_token,
    sql::{Parameter, WriteTransaction},
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

impl WriteTransaction for Transaction {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &raw(parameters)).await.map(count)
    }

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
            .rows(
                INSERT_ANSWER,
                &[&tenant.0, &digest, &created_at, &head, &at, &shown, &sealed],
            )
            .await?;
        Ok(!rows.is_empty())
    }
}
