//! A SQLite transaction, as shared code writes to it.

use scrip_core::{
    audit::{AuditRecord, LogKind, RecordSubject},
    event::NewDelivery,
    id::TenantId,
    idempotency::IdempotencyRecord,
    store::StoreError,
};

use crate::{
    shared::{deliveries::delivery_parameters, idempotency::find_token_number},
    sql::{ColumnReader, Execute, Parameter, Statements, WriteTransaction, parameters},
    sqlite::engine::{
        statement::{execute, try_insert},
        transaction::SqliteTransaction,
    },
    sqlite::maintenance::deliveries::INSERT_DELIVERY,
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
-- insert_idempotency_record
INSERT INTO idempotency_records (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4)";

const INSERT_RESPONSE_TOKEN_DATA: &str = "
-- insert_response_token_data
INSERT INTO response_token_data (record, write_index, token, sealed) VALUES ($1, $2, $3, $4)";

pub(crate) const STATEMENTS: &[&str] =
    &[FIND_TENANT, INSERT_IDEMPOTENCY_RECORD, INSERT_RESPONSE_TOKEN_DATA];

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
        self.append_record(audit, RecordSubject { log: LogKind::Audit, tenant, entity, outcome })
    }

    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        let tenant_row = self.find(FIND_TENANT, &parameters![tenant], |_| Ok(())).await?;
        tenant_row.ok_or_else(|| StoreError::Unavailable("the tenant was deleted".into()))
    }

    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        record: &IdempotencyRecord,
        token_numbers: &[i64],
    ) -> Result<bool, StoreError> {
        let IdempotencyRecord { digest, created_at, head, token_data } = record;
        let row = parameters![tenant, digest, *created_at, head];
        let Some(seq) = try_insert(self, INSERT_IDEMPOTENCY_RECORD, &row)? else {
            return Ok(false);
        };
        for item in token_data {
            let token_number = find_token_number(item, token_numbers)?;
            execute(
                self,
                INSERT_RESPONSE_TOKEN_DATA,
                &parameters![seq, item.write_index, token_number, &item.sealed],
            )?;
        }
        Ok(true)
    }

    async fn insert_deliveries(&mut self, deliveries: &[NewDelivery]) -> Result<(), StoreError> {
        for delivery in deliveries {
            execute(self, INSERT_DELIVERY, &delivery_parameters(delivery))?;
        }
        Ok(())
    }
}
