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
    shared::tokens::rows::{NO_TOKEN, decode_token_record},
    sql::{optional, required},
    transfer::row::TransferRow,
};

/// Facet and container of each.
#[derive(Debug)]
pub(crate) struct TokenEntries {
    pub(crate) tenant: TenantId,
    pub(crate) created_at: Timestamp,
    pub(crate) entries: Vec<(Vec<u8>, String)>,
}

/// Nothing when no engine could have written this row.
pub(crate) fn token_entries(row: &TransferRow) -> Option<TokenEntries> {
    let record = decode_checked_record(row).ok()?;
    let all =
        facets::index_entries(&record).map(|(facet, container)| (facet, container.to_owned()));
    let all = all.collect();
    Some(TokenEntries {
        tenant: required(row, 0).ok()?,
        created_at: record.created_at,
        entries: all,
    })
}

/// Its duplicate keys repeat what other columns say.
fn decode_checked_record(row: &TransferRow) -> Result<TokenRecord, StoreError> {
    let record = decode_token_record(row)?;
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(&record);
    let is = |at, key: Option<DuplicateKey>| Ok(optional(row, at)? == key.map(|it| it.0));
    if is(14, key)? && is(15, read_key)? && row.len() == 16 { Ok(record) } else { Err(NO_TOKEN) }
}
