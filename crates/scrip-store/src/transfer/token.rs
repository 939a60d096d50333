//! A token's row, read as the engines read it: the entries by which it is found follow from it.

use scrip_core::{
    id::TenantId,
    store::StoreError,
    time::Timestamp,
    token::{
        TokenRecord,
        disclosure::{DuplicateKey, DuplicateKeys},
    },
};

use crate::{
    facets,
    rules::tokens::rows::{NO_TOKEN, token_record},
    sql::{optional, required},
    transfer::row::Row,
};

/// Facet and container of each.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) tenant: TenantId,
    pub(crate) created_at: Timestamp,
    pub(crate) all: Vec<(Vec<u8>, String)>,
}

/// Nothing when no engine could have written this row.
pub(crate) fn entries(row: &Row) -> Option<Entries> {
    let record = checked_record(row).ok()?;
    let all = facets::entries(&record).map(|(facet, container)| (facet, container.to_owned()));
    let all = all.collect();
    Some(Entries { tenant: required(row, 0).ok()?, created_at: record.created_at, all })
}

/// Its duplicate keys repeat what other columns say.
fn checked_record(row: &Row) -> Result<TokenRecord, StoreError> {
    let record = token_record(row)?;
    let DuplicateKeys { key, read_key } = DuplicateKeys::of(&record);
    let is = |at, key: Option<DuplicateKey>| Ok(optional(row, at)? == key.map(|it| it.0));
    if is(14, key)? && is(15, read_key)? && row.len() == 16 { Ok(record) } else { Err(NO_TOKEN) }
}
