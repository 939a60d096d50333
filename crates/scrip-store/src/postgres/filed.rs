//! The entries by which tokens are found: one for each facet in each container.

use scrip_core::{
    listing::Facet,
    store::{StoreError, TokenRecord},
};

use crate::{
    facets::facet_bytes,
    postgres::{statement::Parameters, transaction::Transaction},
};

/// The facets and containers of a token's entries, side by side.
pub(super) fn entries(record: &TokenRecord) -> (Vec<Vec<u8>>, Vec<&str>) {
    let of_facet = |facet: Facet| {
        let facet = facet_bytes(&facet);
        record.containers.iter().map(move |it| (facet.clone(), it.as_str()))
    };
    Facet::of_record(record).flat_map(of_facet).unzip()
}

const FILE: &str = "
-- file
INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT $1, it.facet, it.container, $4, $5
FROM unnest($2::bytea[], $3::text[]) AS it (facet, container)";

const UNFILE: &str = "
-- unfile
DELETE FROM filed USING unnest($2::bytea[], $3::text[]) AS it (facet, container)
WHERE filed.tenant = $1 AND filed.facet = it.facet AND filed.container = it.container
    AND filed.created_at = $4 AND filed.token = $5";

pub(super) async fn unfile(
    transaction: &Transaction,
    number: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    each_entry(transaction, UNFILE, number, record).await
}

/// Most updates change nothing that a token is found by.
pub(super) async fn refile(
    transaction: &Transaction,
    number: i64,
    (before, after): (&TokenRecord, &TokenRecord),
) -> Result<(), StoreError> {
    if before.containers == after.containers && Facet::of_record(before).eq(Facet::of_record(after))
    {
        return Ok(());
    }
    unfile(transaction, number, before).await?;
    each_entry(transaction, FILE, number, after).await
}

async fn each_entry(
    transaction: &Transaction,
    sql: &str,
    number: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    let (facets, containers) = entries(record);
    let created_at = record.created_at.unix_ms;
    let parameters: Parameters<'_, 5> =
        [&transaction.tenant.0, &facets, &containers, &created_at, &number];
    transaction.execute_raw(sql, &parameters).await.map(drop)
}
