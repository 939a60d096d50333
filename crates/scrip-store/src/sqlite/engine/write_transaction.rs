//! A SQLite transaction, as shared code writes to it.

use scrip_core::{
    audit::{AuditRecord, LogKind, RecordSubject},
    events::NewDelivery,
    idempotency::IdempotencyRecord,
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::{
        deliveries::delivery_parameters, idempotency::find_token_number, key_versions::check_sealed,
    },
    sql::{
        ColumnReader, Execute, KeyVersions, Parameter, Statements, WriteTransaction, parameters,
        read_optional, read_required,
    },
    sqlite::engine::{
        delivery_rows::INSERT_DELIVERY,
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

const FIND_KEY_VERSIONS: &str = "
-- find_key_versions
SELECT coalesce(sealing_version, 0), (SELECT min(version) FROM tenant_keys WHERE tenant = $1)
FROM tenants WHERE id = $1";

const INSERT_IDEMPOTENCY_RECORD: &str = "
-- insert_idempotency_record
INSERT INTO idempotency_records (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4)";

const INSERT_RESPONSE_TOKEN_DATA: &str = "
-- insert_response_token_data
INSERT INTO response_token_data (record, write_index, token, sealed) VALUES ($1, $2, $3, $4)";

pub(crate) const STATEMENTS: &[&str] =
    &[FIND_KEY_VERSIONS, INSERT_IDEMPOTENCY_RECORD, INSERT_RESPONSE_TOKEN_DATA];

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

    /// Reads the versions once in each task.
    async fn key_versions(&self, tenant: TenantId) -> Result<KeyVersions, StoreError> {
        if let Some((found_tenant, versions)) = self.key_versions.get()
            && found_tenant == tenant
        {
            return Ok(versions);
        }
        let decode = |row: &dyn ColumnReader| {
            Ok(KeyVersions::from_columns(read_required(row, 0)?, read_optional(row, 1)?))
        };
        let versions = self.find(FIND_KEY_VERSIONS, &parameters![tenant], decode).await?;
        let tenant_deleted = || StoreError::Unavailable("the tenant was deleted".into());
        let versions = versions.ok_or_else(tenant_deleted)?;
        self.key_versions.set(Some((tenant, versions)));
        Ok(versions)
    }

    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        record: &IdempotencyRecord,
        token_numbers: &[i64],
    ) -> Result<bool, StoreError> {
        let IdempotencyRecord { digest, created_at, head, token_data } = record;
        let values: Vec<_> = token_data.iter().map(|it| &it.sealed).chain([head]).collect();
        check_sealed(self, tenant, &values).await?;
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
            check_sealed(self, delivery.key.tenant, &[&delivery.body]).await?;
            execute(self, INSERT_DELIVERY, &delivery_parameters(delivery))?;
        }
        Ok(())
    }
}
