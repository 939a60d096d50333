//! Rows of many independent writes, inserted with one statement per table.

use std::collections::HashSet;

use scrip_core::{
    disclosure::{DuplicateKey, DuplicateLookup},
    idempotency::IdempotencyRecord,
    token::{StoredToken, StoredTokenIntent},
    token_batch::InsertToken,
    types::{StoreError, id::TenantId},
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    postgres::engine::statement::{ExtraQuery, RowStatement, SqlValue, read_column},
    shared::tokens::rows::{index_entries, insert_intent_parameters, insert_token_parameters},
    sql::parameters,
};

/// Finds tokens with the same id or duplicate key, live or expired. A hit is only a possible
/// conflict: the write is then done individually, which decides.
///
/// Scalar subqueries are never planned as a join. A server without table statistics would run a
/// join as a full scan.
pub(crate) const FIND_CONFLICTS: &str = "
-- find_conflicts
SELECT it.at FROM unnest($2::bigint[], $3::text[]) AS it (at, id)
WHERE (SELECT number FROM tokens WHERE tenant = $1 AND tokens.id = it.id) IS NOT NULL
UNION ALL
    SELECT it.at FROM unnest($4::bigint[], $5::bytea[]) AS it (at, key)
WHERE (SELECT number FROM tokens WHERE tenant = $1 AND tokens.duplicate_key = it.key
    LIMIT 1) IS NOT NULL
UNION ALL
    SELECT it.at FROM unnest($6::bigint[], $7::bytea[]) AS it (at, key)
WHERE (SELECT number FROM tokens WHERE tenant = $1 AND tokens.duplicate_read_key = it.key
    LIMIT 1) IS NOT NULL";

/// Ids and duplicate keys that must be free before the tokens are inserted.
#[derive(Debug, Default)]
pub(crate) struct ConflictLookup<'a> {
    ids: (Vec<i64>, Vec<&'a str>),
    keys: (Vec<i64>, Vec<Vec<u8>>),
    read_keys: (Vec<i64>, Vec<Vec<u8>>),
}

impl<'a> ConflictLookup<'a> {
    /// Adds the keys of an insert. The query returns `position` if the insert may conflict.
    pub(crate) fn add(&mut self, position: usize, insert: &'a InsertToken) {
        let index = i64::try_from(position).unwrap_or(i64::MAX);
        let record = &insert.token.record;
        self.ids.0.push(index);
        self.ids.1.push(record.id.as_str());
        let Some(lookup) = DuplicateLookup::for_write(record, insert.deduplicate) else { return };
        for DuplicateKey(key) in lookup.keys {
            self.keys.0.push(index);
            self.keys.1.push(key.to_vec());
        }
        if let Some(DuplicateKey(key)) = lookup.read_key {
            self.read_keys.0.push(index);
            self.read_keys.1.push(key.to_vec());
        }
    }

    pub(crate) fn parameters<'b>(&'b self, tenant: &'b Uuid) -> [SqlValue<'b>; 7] {
        let (keys, read_keys) = (&self.keys, &self.read_keys);
        [tenant, &self.ids.0, &self.ids.1, &keys.0, &keys.1, &read_keys.0, &read_keys.1]
    }

    /// Returns the query; `None` if no key was added.
    pub(crate) fn query<'b>(&self, parameters: &'b [SqlValue<'b>; 7]) -> Option<ExtraQuery<'b>> {
        (!self.ids.0.is_empty()).then_some(ExtraQuery { sql: FIND_CONFLICTS, parameters })
    }
}

/// Decodes the positions of the inserts that may conflict.
pub(crate) fn decode_conflicts(rows: &[Row]) -> Result<HashSet<usize>, StoreError> {
    let decode_position =
        |row| read_column::<i64>(row, 0).map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    rows.iter().map(decode_position).collect()
}

/// Rows that one transaction inserts. The tenant is locked and no conflict was found, so an
/// existing key is an error that rolls back the whole set.
#[derive(Debug, Default)]
pub(crate) struct WriteSet<'a> {
    tokens: Vec<(i64, &'a StoredToken)>,
    intents: Vec<&'a StoredTokenIntent>,
    /// Records, each with the numbers of the tokens in its response.
    idempotency_records: Vec<(&'a IdempotencyRecord, Vec<i64>)>,
}

pub(crate) const INSERT_TOKENS: &str = "
-- insert_tokens
WITH inserted AS (
    INSERT INTO tokens (tenant, id, type, fingerprint, containers, created_by, created_at, expires_at,
        revision, indexes, body, expressions, duplicate_key, duplicate_read_key, number)
    SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[], $6::uuid[],
        $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bytea[],
        $13::bytea[], $14::bytea[], $15::bigint[])
), inserted_cvcs AS (
    INSERT INTO cvcs (tenant, token, expires_at, sealed)
    SELECT $1, * FROM unnest($16::bigint[], $17::bigint[], $18::bytea[])
)
INSERT INTO token_index (tenant, facet, container, created_at, token)
SELECT $1, * FROM unnest($19::bytea[], $20::text[], $21::bigint[], $22::bigint[])";

const INSERT_INTENTS: &str = "
-- insert_token_intents
WITH inserted AS (
    INSERT INTO token_intents (tenant, id, type, fingerprint, containers, created_by, created_at,
        expires_at, body)
    SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::bytea[], $5::text[], $6::uuid[],
        $7::bigint[], $8::bigint[], $9::bytea[])
)
INSERT INTO intent_cvcs (tenant, intent, expires_at, sealed)
SELECT $1, * FROM unnest($10::uuid[], $11::bigint[], $12::bytea[])";

const INSERT_IDEMPOTENCY_RECORDS: &str = "
-- insert_idempotency_records
WITH inserted_records AS (
    INSERT INTO idempotency_records (tenant, digest, created_at, head)
    SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bytea[])
)
    INSERT INTO response_token_data (tenant, digest, write_index, token, sealed)
    SELECT $1, * FROM unnest($5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[])";

impl<'a> WriteSet<'a> {
    pub(crate) fn add_token(&mut self, number: i64, token: &'a StoredToken) {
        self.tokens.push((number, token));
    }

    pub(crate) fn add_intent(&mut self, intent: &'a StoredTokenIntent) {
        self.intents.push(intent);
    }

    pub(crate) fn add_idempotency_record(
        &mut self,
        record: &'a IdempotencyRecord,
        numbers: Vec<i64>,
    ) {
        self.idempotency_records.push((record, numbers));
    }

    /// The statements that insert the rows.
    pub(crate) fn statements(&self, tenant: TenantId) -> Vec<RowStatement<'_>> {
        let statements = [
            self.tokens_statement(tenant),
            self.intents_statement(tenant),
            self.idempotency_records_statement(tenant),
        ];
        statements.into_iter().flatten().collect()
    }

    fn tokens_statement(&self, tenant: TenantId) -> Option<RowStatement<'_>> {
        let tokens = || self.tokens.iter();
        let rows = tokens().map(|(_, it)| {
            let [_, columns @ ..] = insert_token_parameters(tenant, &it.record);
            columns
        });
        let cvcs = tokens().filter_map(|(number, it)| {
            let cvc = it.cvc.as_ref()?;
            Some(parameters![*number, cvc.expires_at, &cvc.sealed])
        });
        let index_entries = tokens().flat_map(|(number, StoredToken { record, .. })| {
            let build_entry =
                |(facet, container)| parameters![facet, container, record.created_at, *number];
            index_entries(record).map(build_entry)
        });
        let statement = RowStatement::for_rows(INSERT_TOKENS, parameters![tenant], rows.collect())?;
        let numbers = tokens().map(|(number, _)| parameters![*number]);
        Some(statement.columns(numbers).columns(cvcs).columns(index_entries))
    }

    fn intents_statement(&self, tenant: TenantId) -> Option<RowStatement<'_>> {
        let rows = self.intents.iter().map(|it| {
            let [_, columns @ ..] = insert_intent_parameters(tenant, &it.record);
            columns
        });
        let cvcs = self.intents.iter().filter_map(|it| {
            let cvc = it.cvc.as_ref()?;
            Some(parameters![it.record.id, cvc.expires_at, &cvc.sealed])
        });
        let statement =
            RowStatement::for_rows(INSERT_INTENTS, parameters![tenant], rows.collect())?;
        Some(statement.columns(cvcs))
    }

    fn idempotency_records_statement(&self, tenant: TenantId) -> Option<RowStatement<'_>> {
        let records = || self.idempotency_records.iter();
        let heads = records().map(|(it, _)| parameters![&it.digest, it.created_at, &it.head]);
        let token_data = records().flat_map(|(record, numbers)| {
            // Without a number, PostgreSQL rejects the whole set.
            let find_number = |index: usize| numbers.get(index).copied();
            record.token_data.iter().map(move |it| {
                let number = find_number(it.write_index);
                parameters![&record.digest, it.write_index, number, &it.sealed]
            })
        });
        let sql = INSERT_IDEMPOTENCY_RECORDS;
        let statement = RowStatement::for_rows(sql, parameters![tenant], heads.collect())?;
        Some(statement.columns(token_data))
    }
}
