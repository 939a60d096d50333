//! The columns with values that a tenant's sealing keys sealed.
//!
//! A rotation of a sealing key destroys the old version only when none of these columns needs it,
//! so a column that is missing here could become unreadable. A test compares this table with the
//! schema. The columns of policy are those of the entities.
//!
//! Cursors are sealed too, but not stored: a client holds them. They end with the version that
//! sealed them, which a rotation keeps for a time.

use std::time::Duration;

use scrip_core::{
    keys::RotatedTable,
    operations::claim_idempotency_key,
    policy::{
        ENTITIES,
        entity::{Column, Entity},
    },
};
use scrip_seal::{Purpose, Sealed};

/// What a rotation does with the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedTreatment {
    /// The background task seals the rows again.
    Resealed(RotatedTable),
    /// The promotion seals the rows again, in one transaction with their MACs.
    Policy,
    /// The rows are deleted after this time. The rotation waits for it.
    Expires(Duration),
    /// The rows move to another column within seconds. The rotation waits for it.
    Moves,
}

/// The tables of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedDatabase {
    /// The vault, on both engines.
    Vault,
    /// The database of the read log, which only SQLite has.
    SqliteReadLog,
}

/// A column with sealed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedColumn {
    pub database: SealedDatabase,
    pub table: &'static str,
    pub column: &'static str,
    pub purpose: Purpose,
    /// The columns that identify a row of a tenant.
    pub key: &'static [&'static str],
    /// The function of the core that builds the place from the clear columns of the row.
    pub place: &'static str,
    pub treatment: SealedTreatment,
}

const fn data(
    table: &'static str,
    column: &'static str,
    key: &'static [&'static str],
    place: &'static str,
    treatment: SealedTreatment,
) -> SealedColumn {
    let (database, purpose) = (SealedDatabase::Vault, Purpose::Data);
    SealedColumn { database, table, column, purpose, key, place, treatment }
}

/// A body that the background task seals again.
const fn body(
    table: &'static str,
    key: &'static [&'static str],
    place: &'static str,
    rotated: RotatedTable,
) -> SealedColumn {
    data(table, "body", key, place, SealedTreatment::Resealed(rotated))
}

/// The place of a stored response contains the application, which is not a column: only a request
/// with the same key can open it.
const fn response(
    table: &'static str,
    column: &'static str,
    key: &'static [&'static str],
) -> SealedColumn {
    let treatment = SealedTreatment::Expires(claim_idempotency_key::RESPONSE_RETENTION);
    let place = "idempotency::response";
    SealedColumn { purpose: Purpose::Response, ..data(table, column, key, place, treatment) }
}

const DELIVERY_KEY: &[&str] = &["webhook", "event"];
const DELIVERY_PLACE: &str = "event::delivery::body_place";

/// The sealed columns of tables without policy.
const OTHER_COLUMNS: [SealedColumn; 7] = [
    body("tokens", &["id"], "token::body::body_place", RotatedTable::Tokens),
    body("token_intents", &["id"], "token::intent::body_place", RotatedTable::TokenIntents),
    body("threeds_sessions", &["id"], "threeds::record::body_place", RotatedTable::ThreeDsSessions),
    body("deliveries", DELIVERY_KEY, DELIVERY_PLACE, RotatedTable::Deliveries),
    response("idempotency_records", "head", &["digest"]),
    response("response_token_data", "sealed", &["digest", "write_index"]),
    SealedColumn {
        database: SealedDatabase::SqliteReadLog,
        ..data("read_deliveries", "body", DELIVERY_KEY, DELIVERY_PLACE, SealedTreatment::Moves)
    },
];

/// Every sealed column of both engines.
pub fn sealed_columns() -> impl Iterator<Item = SealedColumn> {
    OTHER_COLUMNS.into_iter().chain(ENTITIES.into_iter().flat_map(policy_columns))
}

fn policy_columns(entity: &'static Entity) -> impl Iterator<Item = SealedColumn> {
    let column = |column: &'static Column| {
        let treatment = SealedTreatment::Policy;
        data(entity.table, column.name, &["id"], "EntityRecord::sealed_place", treatment)
    };
    entity.sealed_columns().map(column)
}

impl SealedColumn {
    pub fn name(&self) -> String {
        format!("{}.{}", self.table, self.column)
    }

    /// Statement that counts the values of a tenant by version. `filter` selects the tenant.
    pub(crate) fn count_statement(&self, filter: &str) -> String {
        let Self { table, column, .. } = self;
        // SQL counts bytes from one.
        let first = Sealed::KEY_VERSION_OFFSET.saturating_add(1);
        let length = Sealed::KEY_VERSION_BYTES;
        format!(
            "-- count_versions_in_{table}_{column}\n\
             SELECT substr({column}, {first}, {length}), count(*) FROM {table} \
             WHERE {filter} GROUP BY 1"
        )
    }
}
