//! Decodes a token's row as the engines do, and derives its index entries.

use scrip_core::{
    Timestamp,
    disclosure::{DuplicateKey, DuplicateKeys},
    token::TokenRecord,
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::tokens::rows::{decode_token_record, index_entries},
    sql::{NO_TOKEN, read_optional, read_required},
    transfer::row::TransferRow,
};

/// The index entries of a token.
#[derive(Debug)]
pub(crate) struct TokenEntries {
    pub(crate) tenant: TenantId,
    pub(crate) created_at: Timestamp,
    /// Facet and container of each entry.
    pub(crate) entries: Vec<(Vec<u8>, String)>,
}

/// Derives the index entries of a token from its row; `None` if the row is invalid.
pub(crate) fn token_entries(row: &TransferRow) -> Option<TokenEntries> {
    let record = decode_checked_record(row).ok()?;
    let entries = index_entries(&record).map(|(facet, container)| (facet, container.to_owned()));
    let entries = entries.collect();
    Some(TokenEntries {
        tenant: read_required(row, 0).ok()?,
        created_at: record.created_at,
        entries,
    })
}

/// Decodes a row and checks its duplicate keys, which repeat the content of other columns.
fn decode_checked_record(row: &TransferRow) -> Result<TokenRecord, StoreError> {
    let record = decode_token_record(row)?;
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(&record);
    let matches =
        |index, key: Option<DuplicateKey>| Ok(read_optional(row, index)? == key.map(|it| it.0));
    if matches(14, key)? && matches(15, read_key)? && row.len() == 16 {
        Ok(record)
    } else {
        Err(NO_TOKEN)
    }
}
