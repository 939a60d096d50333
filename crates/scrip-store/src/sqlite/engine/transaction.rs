//! A transaction of the writer, shared by many queued writes (group commit). The code calls a
//! queued write a task.
//!
//! Each task would read, sign and write the same chain head and update the same two counters. So
//! these values are collected here and written once, before the commit. Every task has a savepoint;
//! a rollback also reverts its collected values.

use std::{cell::Cell, ops::Deref};

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, LogKind, RecordSubject},
    events::NewDelivery,
    idempotency::IdempotencyRecord,
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::{
        deliveries::delivery_parameters,
        idempotency::find_token_number,
        tokens::writes::{UsageDelta, UsageTotals},
    },
    sql::{
        ColumnReader, Execute, KeyVersions, Parameter, Statements, WriteTransaction, parameters,
        read_optional, read_required,
    },
    sqlite::engine::{
        open_chains::OpenChains,
        statement::{execute, put_or_report, store_error, try_insert},
    },
};

/// A write transaction. It derefs to the connection, on which statements run.
pub(crate) struct SqliteTransaction<'a> {
    connection: &'a Connection,
    pub(crate) chains: OpenChains,
    pub(crate) usage: UsageDelta,
    /// The key versions that the current task has read.
    pub(crate) key_versions: Cell<Option<(TenantId, KeyVersions)>>,
    /// Collected values at the start of the task.
    work_start: TransactionMark,
    rollback_target: RollbackTarget,
}

/// The state that a task is rolled back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RollbackTarget {
    /// The whole transaction, because the task is the first one.
    WholeTransaction,
    /// A savepoint. SQLite then copies every page that the task changes.
    Savepoint,
}

/// The number of collected changes of each kind.
#[derive(Debug, Clone, Copy, Default)]
struct TransactionMark {
    chains: usize,
    usage: usize,
}

impl Deref for SqliteTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl<'a> SqliteTransaction<'a> {
    pub(crate) fn begin(connection: &'a Connection) -> Result<Self, StoreError> {
        execute_cached(connection, "BEGIN IMMEDIATE")?;
        let (chains, usage) = (OpenChains::default(), UsageDelta::default());
        Ok(Self {
            connection,
            chains,
            usage,
            key_versions: Cell::new(None),
            work_start: TransactionMark::default(),
            rollback_target: RollbackTarget::WholeTransaction,
        })
    }

    /// Whether the transaction has ended. SQLite may end it when the disk is full.
    pub(crate) fn is_ended(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Runs one task and returns its result. Rolls back the task if `should_commit` is false.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> T,
        should_commit: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        if self.rollback_target == RollbackTarget::Savepoint {
            execute_cached(self.connection, "SAVEPOINT work")?;
        }
        self.work_start = self.mark();
        self.key_versions.set(None);
        let result = work(self);
        if !should_commit(&result) {
            drop(self.roll_back_work());
        }
        if self.rollback_target == RollbackTarget::Savepoint && !self.is_ended() {
            drop(execute_cached(self.connection, "RELEASE work"));
        }
        self.rollback_target = RollbackTarget::Savepoint;
        Ok(result)
    }

    /// Rolls back the current task, which may start again.
    pub(crate) fn roll_back_work(&mut self) -> Result<(), StoreError> {
        self.roll_back_to_mark(self.work_start);
        match self.rollback_target {
            RollbackTarget::Savepoint => execute_cached(self.connection, "ROLLBACK TO work"),
            RollbackTarget::WholeTransaction => {
                execute_cached(self.connection, "ROLLBACK")?;
                execute_cached(self.connection, "BEGIN IMMEDIATE")
            }
        }
    }

    /// Appends a record to a chain.
    pub(crate) fn append_record(
        &mut self,
        audit: &AuditRecord,
        subject: RecordSubject<'_>,
    ) -> Result<(), StoreError> {
        self.chains.append(self.connection, audit, subject)
    }

    fn mark(&self) -> TransactionMark {
        TransactionMark { chains: self.chains.change_count(), usage: self.usage.change_count() }
    }

    fn roll_back_to_mark(&mut self, mark: TransactionMark) {
        self.chains.roll_back_to(mark.chains);
        self.usage.truncate(mark.usage);
    }

    /// Runs a part of a task that is rolled back alone if it fails.
    pub(crate) fn in_savepoint<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check_active()?;
        execute_cached(self.connection, "SAVEPOINT part")?;
        let mark = self.mark();
        let result = work(self);
        // If SQLite has ended the transaction, the savepoint would begin a new one.
        self.check_active()?;
        if result.is_err() {
            self.roll_back_to_mark(mark);
            execute_cached(self.connection, "ROLLBACK TO part")?;
        }
        execute_cached(self.connection, "RELEASE part")?;
        result
    }

    /// Writes the collected values and commits.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let result = self.put_pending().and_then(|()| execute_cached(self.connection, "COMMIT"));
        if result.is_err() && !self.is_ended() {
            drop(execute_cached(self.connection, "ROLLBACK"));
        }
        result
    }

    /// Fails if SQLite has ended the transaction.
    fn check_active(&self) -> Result<(), StoreError> {
        if self.is_ended() {
            return Err(StoreError::Unavailable("SQLite has ended the transaction".into()));
        }
        Ok(())
    }

    fn put_pending(&self) -> Result<(), StoreError> {
        // If SQLite has ended the transaction, these writes would begin a new one.
        self.check_active()?;
        self.chains.put_heads(self.connection)?;
        put_usage(self.connection, &self.usage)
    }
}

fn execute_cached(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute([])).map(drop).map_err(store_error)
}

const PUT_TYPE: &str = "
-- put_usage_type
INSERT INTO usage_types (tenant, type, count, last_created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, type) DO UPDATE SET count = count + $3,
    last_created_at = max(last_created_at, $4)";

/// Changes nothing if there is no counter: the remaining rows of a deleted tenant have none.
const DECREASE_TYPE: &str = "
-- decrease_usage_type
UPDATE usage_types SET count = count - $1 WHERE tenant = $2 AND type = $3";

const PUT_MONTH: &str = "
-- put_usage_month
INSERT INTO usage_months (month, tenant, created) VALUES ($1, $2, $3)
ON CONFLICT (month, tenant) DO UPDATE SET created = created + $3";

/// Writes the usage counters of tokens.
fn put_usage(connection: &Connection, usage: &UsageDelta) -> Result<(), StoreError> {
    let UsageTotals { types, months } = usage.totals();
    for ((tenant, token_type), type_totals) in types {
        if type_totals.created > 0 {
            let count = type_totals.created.saturating_sub(type_totals.removed);
            let row = parameters![tenant, token_type, count, type_totals.last_created_ms];
            put_or_report(connection, PUT_TYPE, &row, || report_usage_error(tenant))?;
        } else {
            let row = parameters![type_totals.removed, tenant, token_type];
            put_or_report(connection, DECREASE_TYPE, &row, || report_usage_error(tenant))?;
        }
    }
    for ((month, tenant), created) in months {
        let row = parameters![month, tenant, created];
        put_or_report(connection, PUT_MONTH, &row, || report_usage_error(tenant))?;
    }
    Ok(())
}

fn report_usage_error(tenant: TenantId) {
    tracing::error!(%tenant, "usage counter cannot be written; it is wrong from now on");
}

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

/// A new delivery is due at once.
const INSERT_DELIVERY: &str = "
-- insert_delivery
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, body, state, pending_since,
    attempts, next_at)
VALUES ($1, $2, $3, $4, $5, $6, 'pending', $5, 0, $5)";

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
        self.check_sealed(tenant, &values).await?;
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
            self.check_sealed(delivery.key.tenant, &[&delivery.body]).await?;
            execute(self, INSERT_DELIVERY, &delivery_parameters(delivery))?;
        }
        Ok(())
    }
}
