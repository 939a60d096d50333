//! A PostgreSQL transaction, as shared code writes to it.

use scrip_core::{
    audit::AuditRecord,
    events::NewDelivery,
    idempotency::IdempotencyRecord,
    types::{StoreError, id::TenantId},
};

use crate::{
    postgres::engine::{
        statement::{PostgresClient, driver_parameters},
        transaction::PostgresTransaction,
    },
    shared::idempotency::find_token_number,
    sql::{Execute, KeyVersions, Parameter, WriteTransaction},
};

/// Inserts the row that makes a request idempotent across nodes: a second request with the same key
/// finds the row and is rolled back.
const INSERT_IDEMPOTENCY_RECORD: &str = "
-- insert_idempotency_record
WITH inserted_record AS (
    INSERT INTO idempotency_records (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, digest) DO NOTHING
    RETURNING digest
), token_data AS (
    INSERT INTO response_token_data (tenant, digest, write_index, token, sealed)
    SELECT $1, inserted_record.digest, it.write_index, it.token, it.sealed
    FROM inserted_record
    CROSS JOIN unnest($5::bigint[], $6::bigint[], $7::bytea[]) AS it (write_index, token, sealed)
)
    SELECT 1 FROM inserted_record";

impl Execute for PostgresTransaction {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &driver_parameters(parameters)).await
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

    async fn key_versions(&self, tenant: TenantId) -> Result<KeyVersions, StoreError> {
        self.check_tenant_matches(tenant)?;
        self.stored_key_versions()
    }

    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        record: &IdempotencyRecord,
        token_numbers: &[i64],
    ) -> Result<bool, StoreError> {
        let IdempotencyRecord { digest, created_at, head, token_data } = record;
        let values: Vec<_> = token_data.iter().map(|it| &it.sealed).chain([head]).collect();
        self.check_sealed(tenant, &values).await?;
        let write_indexes: Vec<_> =
            token_data.iter().map(|it| i64::try_from(it.write_index).unwrap_or(i64::MAX)).collect();
        let numbers = token_data.iter().map(|it| find_token_number(it, token_numbers));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let sealed: Vec<_> = token_data.iter().map(|it| it.sealed.as_bytes()).collect();
        let (digest, head) = (digest.as_slice(), head.as_bytes());
        let created_at = created_at.unix_ms;
        let rows = self
            .rows(
                INSERT_IDEMPOTENCY_RECORD,
                &[&tenant.0, &digest, &created_at, &head, &write_indexes, &numbers, &sealed],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    async fn insert_deliveries(&mut self, deliveries: &[NewDelivery]) -> Result<(), StoreError> {
        for delivery in deliveries {
            self.check_sealed(delivery.key.tenant, &[&delivery.body]).await?;
        }
        self.append_deliveries(deliveries)
    }
}
