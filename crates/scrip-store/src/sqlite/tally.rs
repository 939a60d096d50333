//! What the tokens of a transaction change of the counts: kept until its commit, since most of them
//! are of the same tenant, type and month.

use std::collections::HashMap;

use rusqlite::Connection;
use scrip_core::{
    id::TenantId,
    store::StoreError,
    time::{Month, Timestamp},
    token_type::TokenType,
};

use crate::sqlite::put_anyway;

/// In their order, so that a savepoint takes back the last ones.
#[derive(Debug, Default)]
pub(super) struct Tally {
    changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Made(TenantId, TokenType, Timestamp),
    Gone(TenantId, TokenType),
    /// Its counts were removed, and what came before does not bring them back.
    Forgotten(TenantId),
}

/// Of one type.
#[derive(Debug, Default)]
struct Sum {
    made: i64,
    gone: i64,
    last_made_ms: i64,
}

impl Tally {
    pub(super) fn made(&mut self, tenant: TenantId, of: TokenType, at: Timestamp) {
        self.changes.push(Change::Made(tenant, of, at));
    }

    pub(super) fn gone(&mut self, tenant: TenantId, of: TokenType) {
        self.changes.push(Change::Gone(tenant, of));
    }

    pub(super) fn forgotten(&mut self, tenant: TenantId) {
        self.changes.push(Change::Forgotten(tenant));
    }

    /// How many there are: up to where a savepoint takes them back.
    pub(super) fn changes(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn take_back(&mut self, to: usize) {
        self.changes.truncate(to);
    }

    pub(super) fn put(&self, connection: &Connection) -> Result<(), StoreError> {
        let (mut types, mut months) = (HashMap::<_, Sum>::new(), HashMap::<_, i64>::new());
        for change in &self.changes {
            match *change {
                Change::Made(tenant, of, at) => {
                    let sum = types.entry((tenant, of)).or_default();
                    sum.made = sum.made.saturating_add(1);
                    sum.last_made_ms = sum.last_made_ms.max(at.unix_ms);
                    let made = months.entry((Month::of(at), tenant)).or_default();
                    *made = made.saturating_add(1);
                }
                Change::Gone(tenant, of) => {
                    let sum = types.entry((tenant, of)).or_default();
                    sum.gone = sum.gone.saturating_add(1);
                }
                Change::Forgotten(tenant) => {
                    types.retain(|(it, _), _| *it != tenant);
                    months.retain(|(_, it), _| *it != tenant);
                }
            }
        }
        for ((tenant, of), sum) in types {
            put_type(connection, tenant, of, &sum)?;
        }
        for ((month, tenant), made) in months {
            put_month(connection, (month, tenant), made)?;
        }
        Ok(())
    }
}

const PUT_TYPE: &str = "
-- put_usage_type
INSERT INTO usage_types (tenant, type, count, last_created_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (tenant, type) DO UPDATE SET count = count + ?3,
    last_created_at = max(last_created_at, ?4)";

/// Nothing where there is no count: what a deleted tenant leaves to be purged has none any more.
const LOWER_TYPE: &str = "
-- lower_usage_type
UPDATE usage_types SET count = count - ?3 WHERE tenant = ?1 AND type = ?2";

fn put_type(
    connection: &Connection,
    tenant: TenantId,
    of: TokenType,
    sum: &Sum,
) -> Result<(), StoreError> {
    let (bytes, of) = (tenant.0.as_bytes(), of.as_str());
    let put = if sum.made > 0 {
        let parameters = (bytes, of, sum.made.saturating_sub(sum.gone), sum.last_made_ms);
        connection.prepare_cached(PUT_TYPE).and_then(|mut it| it.execute(parameters))
    } else {
        let parameters = (bytes, of, sum.gone);
        connection.prepare_cached(LOWER_TYPE).and_then(|mut it| it.execute(parameters))
    };
    put_anyway(put, || tell(tenant))
}

const PUT_MONTH: &str = "
-- put_usage_month
INSERT INTO usage_months (month, tenant, created) VALUES (?1, ?2, ?3)
ON CONFLICT (month, tenant) DO UPDATE SET created = created + ?3";

fn put_month(
    connection: &Connection,
    (month, tenant): (Month, TenantId),
    made: i64,
) -> Result<(), StoreError> {
    let parameters = (month.0, tenant.0.as_bytes(), made);
    let put = connection.prepare_cached(PUT_MONTH).and_then(|mut it| it.execute(parameters));
    put_anyway(put, || tell(tenant))
}

fn tell(tenant: TenantId) {
    tracing::error!(%tenant, "a count of tokens cannot be written; it is wrong from now on");
}
