//! Rows of many independent writes, inserted with one statement per table.

use std::{collections::HashSet, iter};

use deadpool_postgres::Object;
use scrip_core::{
    disclosure::{DuplicateKey, DuplicateLookup},
    idempotency::IdempotencyRecord,
    token::{StoredToken, StoredTokenIntent},
    token_batch::InsertToken,
    types::{StoreError, id::TenantId},
};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use crate::{
    facets::index_entries,
    postgres::engine::{
        columns::ColumnArrays,
        error::store_error,
        row::read_column,
        statement::{ExtraQuery, SqlValue},
    },
    shared::tokens::{intents::insert_intent_parameters, rows::insert_token_parameters},
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

/// The statements that a write set needs.
#[derive(Debug)]
pub(crate) struct WriteSetStatements {
    tokens: Option<Statement>,
    intents: Option<Statement>,
    idempotency_records: Option<Statement>,
}

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

    pub(crate) async fn prepare(&self, client: &Object) -> Result<WriteSetStatements, StoreError> {
        let prepare = async |is_needed: bool, sql| match is_needed {
            true => client.prepare_cached(sql).await.map(Some).map_err(store_error),
            false => Ok(None),
        };
        Ok(WriteSetStatements {
            tokens: prepare(!self.tokens.is_empty(), INSERT_TOKENS).await?,
            intents: prepare(!self.intents.is_empty(), INSERT_INTENTS).await?,
            idempotency_records: prepare(
                !self.idempotency_records.is_empty(),
                INSERT_IDEMPOTENCY_RECORDS,
            )
            .await?,
        })
    }

    /// Pipelines all statements: sends them before it waits for a result.
    pub(crate) async fn put(
        &self,
        client: &Object,
        tenant: TenantId,
        statements: WriteSetStatements,
    ) -> Result<(), tokio_postgres::Error> {
        let WriteSetStatements { tokens, intents, idempotency_records } = &statements;
        tokio::try_join!(
            biased;
            self.put_tokens(client, tenant, tokens.as_ref()),
            self.put_intents(client, tenant, intents.as_ref()),
            self.put_idempotency_records(client, tenant, idempotency_records.as_ref()),
        )
        .map(drop)
    }

    async fn put_tokens(
        &self,
        client: &Object,
        tenant: TenantId,
        statement: Option<&Statement>,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(statement) = statement else { return Ok(()) };
        let tokens = || self.tokens.iter();
        let rows = ColumnArrays::from_rows(
            tokens().map(|(_, it)| insert_token_parameters(tenant, &it.record)),
        );
        let numbers = ColumnArrays::from_rows(tokens().map(|(number, _)| parameters![*number]));
        let cvcs = ColumnArrays::from_rows(tokens().filter_map(|(number, it)| {
            let cvc = it.cvc.as_ref()?;
            Some(parameters![*number, cvc.expires_at, &cvc.sealed])
        }));
        let index_entries =
            ColumnArrays::from_rows(tokens().flat_map(|(number, StoredToken { record, .. })| {
                let build_entry =
                    |(facet, container)| parameters![facet, container, record.created_at, *number];
                index_entries(record).map(build_entry)
            }));
        let columns = rows
            .driver_parameters()
            .skip(1)
            .chain(numbers.driver_parameters())
            .chain(cvcs.driver_parameters())
            .chain(index_entries.driver_parameters());
        execute_with_columns(client, statement, &tenant, columns).await
    }

    async fn put_intents(
        &self,
        client: &Object,
        tenant: TenantId,
        statement: Option<&Statement>,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(statement) = statement else { return Ok(()) };
        let intents = || self.intents.iter();
        let rows = ColumnArrays::from_rows(
            intents().map(|it| insert_intent_parameters(tenant, &it.record)),
        );
        let cvcs = ColumnArrays::from_rows(intents().filter_map(|it| {
            let cvc = it.cvc.as_ref()?;
            Some(parameters![it.record.id, cvc.expires_at, &cvc.sealed])
        }));
        execute_with_columns(
            client,
            statement,
            &tenant,
            rows.driver_parameters().skip(1).chain(cvcs.driver_parameters()),
        )
        .await
    }

    async fn put_idempotency_records(
        &self,
        client: &Object,
        tenant: TenantId,
        statement: Option<&Statement>,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(statement) = statement else { return Ok(()) };
        let heads = ColumnArrays::from_rows(
            self.idempotency_records
                .iter()
                .map(|(it, _)| parameters![&it.digest, it.created_at, &it.head]),
        );
        let token_data = ColumnArrays::from_rows(self.idempotency_records.iter().flat_map(
            |(record, numbers)| {
                // Without a number, PostgreSQL rejects the whole set.
                let find_number = |index: usize| numbers.get(index).copied();
                record.token_data.iter().map(move |it| {
                    parameters![
                        &record.digest,
                        it.write_index,
                        find_number(it.write_index),
                        &it.sealed
                    ]
                })
            },
        ));
        execute_with_columns(
            client,
            statement,
            &tenant,
            heads.driver_parameters().chain(token_data.driver_parameters()),
        )
        .await
    }
}

/// Executes a statement. Parameters: the tenant, then an array per column.
async fn execute_with_columns<'a>(
    client: &Object,
    statement: &Statement,
    tenant: &'a TenantId,
    columns: impl Iterator<Item = SqlValue<'a>>,
) -> Result<(), tokio_postgres::Error> {
    let tenant_parameter: SqlValue<'_> = &tenant.0;
    let columns: Vec<_> = iter::once(tenant_parameter).chain(columns).collect();
    client.execute(statement, &columns).await.map(drop)
}
