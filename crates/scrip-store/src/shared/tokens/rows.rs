//! Conversion between a token's row and its record.

use scrip_core::{
    disclosure::{DuplicateKey, DuplicateKeys},
    token::{CvcRecord, StoredToken, TokenModification, TokenRecord},
    types::{StoreError, id::TenantId},
};
use scrip_seal::IndexDigest;

use crate::sql::{
    ColumnReader, MISSING_COLUMNS, Parameter, parameters, read_optional, read_required,
};

pub(crate) const NO_TOKEN: StoreError = StoreError::Corrupt("a token's row is invalid");

/// A token and the number of its row.
#[derive(Debug, Clone)]
pub(crate) struct NumberedToken {
    pub(crate) number: i64,
    pub(crate) token: StoredToken,
}

/// Decodes the columns of `select_tokens!`. Never panics: a malformed row is an error.
pub(crate) fn decode_numbered_token(row: &dyn ColumnReader) -> Result<NumberedToken, StoreError> {
    let token = StoredToken { record: decode_token_record(row)?, cvc: decode_cvc(row, 14)? };
    Ok(NumberedToken { number: read_required(row, 0)?, token })
}

/// Decodes a token from the second column on.
pub(crate) fn decode_token_record(row: &dyn ColumnReader) -> Result<TokenRecord, StoreError> {
    decode_columns(row).map_err(|_| NO_TOKEN)
}

fn decode_columns(row: &dyn ColumnReader) -> Result<TokenRecord, StoreError> {
    let modified = match (read_optional(row, 7)?, read_optional(row, 8)?) {
        (Some(by), Some(at)) => Some(TokenModification { by, at }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(MISSING_COLUMNS),
    };
    Ok(TokenRecord {
        id: read_required(row, 1)?,
        token_type: read_required(row, 2)?,
        fingerprint: read_optional(row, 3)?,
        containers: read_required(row, 4)?,
        created_by: read_required(row, 5)?,
        created_at: read_required(row, 6)?,
        modified,
        expires_at: read_optional(row, 9)?,
        revision: read_required(row, 10)?,
        indexes: read_required(row, 11)?,
        body: read_required(row, 12)?,
        expressions: read_required(row, 13)?,
    })
}

/// Decodes two columns, which are NULL if there is no CVC.
pub(crate) fn decode_cvc(
    row: &dyn ColumnReader,
    first_column: usize,
) -> Result<Option<CvcRecord>, StoreError> {
    let columns =
        read_optional(row, first_column)?.zip(read_optional(row, first_column.saturating_add(1))?);
    Ok(columns.map(|(expires_at, sealed)| CvcRecord { expires_at, sealed }))
}

/// The columns of a new token: tenant, id, type, fingerprint, containers, creator, creation time,
/// expiry, revision, indexes, body, expressions and the two keys for deduplication.
pub(crate) fn insert_token_parameters(
    tenant: TenantId,
    token: &TokenRecord,
) -> [Parameter<'_>; 14] {
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(token);
    parameters![
        tenant,
        &token.id,
        token.token_type,
        token.fingerprint.as_ref(),
        token.containers.to_text(),
        token.created_by,
        token.created_at,
        token.expires_at,
        token.revision,
        encode_indexes(&token.indexes),
        &token.body,
        token.expressions.to_bytes().to_vec(),
        key.map(encode_duplicate_key),
        read_key.map(encode_duplicate_key),
    ]
}

/// The columns that may change, then tenant and number.
pub(crate) fn update_token_parameters(
    tenant: TenantId,
    number: i64,
    token: &TokenRecord,
) -> [Parameter<'_>; 13] {
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(token);
    parameters![
        token.fingerprint.as_ref(),
        token.containers.to_text(),
        token.modified.map(|it| it.by),
        token.modified.map(|it| it.at),
        token.expires_at,
        token.revision,
        encode_indexes(&token.indexes),
        &token.body,
        token.expressions.to_bytes().to_vec(),
        key.map(encode_duplicate_key),
        read_key.map(encode_duplicate_key),
        tenant,
        number,
    ]
}

fn encode_duplicate_key(key: DuplicateKey) -> Vec<u8> {
    key.0.to_vec()
}

/// Encodes index digests as the column stores them.
pub(crate) fn encode_indexes(indexes: &[IndexDigest]) -> Vec<u8> {
    indexes.iter().flat_map(|it| it.0).collect()
}
