//! The chains that a transaction goes on with. Their records are written at once, and their heads
//! once for all of those, before the commit.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, ffi::SQLITE_CONSTRAINT_UNIQUE, params};
use scrip_core::{
    audit::{
        AuditRecord,
        chain::{Entry, Head, HeadSigner, Log, LogRow, Tip},
    },
    id::TenantId,
    store::StoreError,
    time::Timestamp,
};
use scrip_seal::Mac;

use crate::sqlite::{fault, put_anyway, row::uuid};

#[derive(Debug, Default)]
pub(super) struct Chains {
    open: HashMap<TenantId, OpenChain>,
    /// What a chain was before each change: nothing where it was not open.
    changes: Vec<(TenantId, Option<OpenChain>)>,
}

/// Its head before the transaction, and where it has come to.
#[derive(Debug, Clone)]
struct OpenChain {
    log: Log,
    before: Option<Head>,
    tip: Tip,
    signer: HeadSigner,
}

impl Chains {
    /// One more record.
    pub(super) fn append(
        &mut self,
        connection: &Connection,
        audit: &AuditRecord,
        entry: Entry<'_>,
    ) -> Result<(), StoreError> {
        let mut chain = match self.open.get(&entry.tenant) {
            Some(open) => open.clone(),
            None => OpenChain::open(connection, audit, entry)?,
        };
        chain.append(connection, audit, entry)?;
        self.change(entry.tenant, chain);
        Ok(())
    }

    /// With the last record of a tenant, whose chain is then kept for so long.
    pub(super) fn end(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        retention_seconds: Option<i64>,
    ) {
        if let Some(open) = self.open.get(&tenant) {
            let before = Some(audit.end(open.head(tenant), open.log, retention_seconds));
            let ended = OpenChain { before, ..open.clone() };
            self.change(tenant, ended);
        }
    }

    fn change(&mut self, tenant: TenantId, chain: OpenChain) {
        let before = self.open.insert(tenant, chain);
        self.changes.push((tenant, before));
    }

    /// How many there were: up to where a savepoint takes them back.
    pub(super) fn changes(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn take_back(&mut self, to: usize) {
        while self.changes.len() > to
            && let Some((tenant, before)) = self.changes.pop()
        {
            match before {
                Some(before) => self.open.insert(tenant, before),
                None => self.open.remove(&tenant),
            };
        }
    }

    pub(super) fn put(&self, connection: &Connection) -> Result<(), StoreError> {
        self.open.iter().try_for_each(|(tenant, it)| put_head(connection, &it.head(*tenant)))
    }
}

impl OpenChain {
    fn open(
        connection: &Connection,
        audit: &AuditRecord,
        Entry { log, tenant, .. }: Entry<'_>,
    ) -> Result<Self, StoreError> {
        let before = match find_head(connection, tenant) {
            Ok(Some(head)) if head.n < i64::MAX => Some(head),
            // A new chain; or somebody took its head away.
            Ok(None) if !has_records(connection, tenant)? => None,
            Ok(_) | Err(StoreError::Corrupt(_)) => Some(lost_head(connection, tenant)?),
            Err(error @ (StoreError::Busy | StoreError::Answered | StoreError::Unavailable(_))) => {
                return Err(error);
            }
        };
        let (tip, signer) = (Tip::of(before.as_ref()), audit.head_signer());
        Ok(Self { log, before, tip, signer })
    }

    /// Nobody else writes meanwhile: whose number is taken follows a head that was put back, and
    /// goes on behind the others.
    fn append(
        &mut self,
        connection: &Connection,
        audit: &AuditRecord,
        entry: Entry<'_>,
    ) -> Result<(), StoreError> {
        if insert_record(connection, &audit.link(&mut self.tip, entry))? {
            return Ok(());
        }
        let lost = lost_head(connection, entry.tenant)?;
        (self.before, self.tip) = (Some(lost), Tip::of(Some(&lost)));
        if insert_record(connection, &audit.link(&mut self.tip, entry))? {
            return Ok(());
        }
        Err(StoreError::Corrupt("a chain has no free number"))
    }

    fn head(&self, tenant: TenantId) -> Head {
        self.signer.head(self.log, tenant, self.before.as_ref(), self.tip)
    }
}

const HAS_RECORDS: &str = "
-- has_records
SELECT EXISTS (SELECT 1 FROM audit WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM audit_checkpoints WHERE tenant = ?1)";

fn has_records(connection: &Connection, tenant: TenantId) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(HAS_RECORDS).map_err(fault)?;
    statement.query_row([tenant.0.as_bytes()], |row| row.get(0)).map_err(fault)
}

/// The last record that has a free number behind it: somebody may have used up the highest. Where
/// no record is left, what the checkpoint says.
const FIND_FREE: &str = "
-- find_free
SELECT n, link FROM audit AS it WHERE tenant = ?1 AND n < 9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM audit WHERE tenant = ?1 AND n = it.n + 1)
ORDER BY n DESC LIMIT 1";
const FIND_PRUNED: &str = "
-- find_pruned
SELECT n, link FROM audit_checkpoints WHERE tenant = ?1 AND n < 9223372036854775807";

/// Nobody must be able to stop a vault by a head that is missing, unreadable or of another time.
/// The chain goes on, and never has a valid head again: verifying finds it.
fn lost_head(connection: &Connection, tenant: TenantId) -> Result<Head, StoreError> {
    tracing::error!(
        %tenant,
        "the head of a chain of records is missing or altered; run: scrip audit verify"
    );
    let find = |sql| {
        let mut statement = connection.prepare_cached(sql).map_err(fault)?;
        let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1).ok().map(Mac)));
        statement.query_row([tenant.0.as_bytes()], found).optional().map_err(fault)
    };
    let last = match find(FIND_FREE)? {
        None => find(FIND_PRUNED)?,
        some => some,
    };
    let (n, link) = last.unwrap_or((0, None));
    Ok(Head::lost(tenant, n, link))
}

const INSERT_RECORD: &str = "
-- insert_record
INSERT INTO audit (tenant, n, at, actor_kind, actor, operation, entity, outcome, trace, address,
    api_key, os_user, repeats, link)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

/// Whether its number was free.
fn insert_record(connection: &Connection, row: &LogRow<'_>) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(INSERT_RECORD).map_err(fault)?;
    let inserted = statement.execute(params![
        row.tenant.0.as_bytes(),
        row.n,
        row.at.unix_ms,
        row.actor_kind,
        row.actor.as_ref().map(|it| it.0.as_bytes()),
        row.operation,
        row.entity,
        row.outcome,
        row.trace,
        row.address,
        row.api_key.as_ref().map(|it| it.0.as_bytes()),
        row.os_user,
        row.repeats,
        row.link.0,
    ]);
    match inserted {
        Ok(_) => Ok(true),
        Err(error) if is_taken(&error) => Ok(false),
        Err(error) => Err(fault(error)),
    }
}

fn is_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|it| it.extended_code == SQLITE_CONSTRAINT_UNIQUE)
}

macro_rules! head_columns {
    () => {
        "tenant, n, at, link, retention_seconds, mac FROM audit_heads"
    };
}

const FIND_HEAD: &str = concat!("-- find_head\nSELECT ", head_columns!(), " WHERE tenant = ?1");

fn find_head(connection: &Connection, tenant: TenantId) -> Result<Option<Head>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_HEAD).map_err(fault)?;
    statement.query_row([tenant.0.as_bytes()], head).optional().map_err(fault)
}

pub(super) const LIST_HEADS: &str =
    concat!("-- list_heads\nSELECT ", head_columns!(), " ORDER BY tenant");

pub(super) fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head {
        tenant: TenantId(uuid(row.get(0)?)),
        n: row.get(1)?,
        at: Timestamp { unix_ms: row.get(2)? },
        link: Mac(row.get(3)?),
        retention_seconds: row.get(4)?,
        mac: Mac(row.get(5)?),
    })
}

const PUT_HEAD: &str = "
-- put_head
INSERT INTO audit_heads (tenant, n, at, link, retention_seconds, mac)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (tenant) DO UPDATE SET n = ?2, at = ?3, link = ?4, retention_seconds = ?5, mac = ?6";

fn put_head(connection: &Connection, head: &Head) -> Result<(), StoreError> {
    let Head { tenant, n, at, link, retention_seconds, mac } = head;
    let parameters = (tenant.0.as_bytes(), n, at.unix_ms, link.0, retention_seconds, mac.0);
    let put = connection.prepare_cached(PUT_HEAD).and_then(|mut it| it.execute(parameters));
    // Verifying finds it, for the records are there.
    put_anyway(put, || tracing::error!(%tenant, "the head of a chain of records cannot be written"))
}
